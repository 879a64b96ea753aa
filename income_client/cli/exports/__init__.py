"""What `export` keeps while it runs, and how the file comes to its place."""
