"""Questions to the history lake, and a page with the answers."""
