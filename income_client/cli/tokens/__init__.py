"""What `token` tells of an access token."""
