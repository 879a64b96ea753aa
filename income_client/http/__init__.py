"""Requests to the service: endpoints, access tokens, retries, connections and replies."""

from income_client.system.tls import check_key_log

# Before any module of this package imports aiohttp.
check_key_log()
