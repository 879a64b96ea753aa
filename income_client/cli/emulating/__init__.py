"""What `emulate` can be told of the service that it plays."""
