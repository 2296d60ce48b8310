"""One typed function per script."""
