"""What `demo` has found, and how it is shown."""
