"""Document files from their addresses to their places on disk, in memory or object storage."""
