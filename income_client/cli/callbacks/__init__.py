"""What `listen`, `trigger` and `emulate` know of callbacks."""
