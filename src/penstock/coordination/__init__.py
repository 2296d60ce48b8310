"""Who owns which partition of a log."""
