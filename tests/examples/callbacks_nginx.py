# callbacks_nginx.py
# pip install 'income-client[callbacks]' fastapi uvicorn
from fastapi import FastAPI
from starlette.routing import Route

from income_client.receivers import (
    CallbackClientCertificate,
    CallbackReceiver,
    CallbackSourceNetworks,
)
from income_client.receivers.asgi import Receiver

service = CallbackClientCertificate(
    san="callbacks.service.example",
    proxy_header="Client-Cert",
    verified_header=("X-SSL-Client-Verify", "SUCCESS"),
)
receiver = CallbackReceiver(
    print,
    auth=[service, CallbackSourceNetworks(["198.51.100.0/24"])],
    trusted_proxies=["127.0.0.1", "unix:"],
)
app = FastAPI(routes=[Route("/callbacks", Receiver(receiver))])
