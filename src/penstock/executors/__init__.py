"""Where the user's code runs."""
