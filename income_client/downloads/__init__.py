"""Document files from their addresses to their places; the clients' methods are in `files`."""
