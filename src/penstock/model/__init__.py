"""Nouns and rules; no I/O."""
