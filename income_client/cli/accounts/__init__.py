"""Where the service is and who asks: variables, a file, a prompt."""
