"""What `download` shows and writes down while files come."""
