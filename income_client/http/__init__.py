"""Requests to the service: endpoints, access tokens, retries, connections and replies."""
