"""Penstock measured by itself, beside what Redis and Python can do at all."""
