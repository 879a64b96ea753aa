"""One request to the service: what is asked, the token, retries, the connection and the reply."""
