"""Values to bytes and back."""
