# callbacks_opaque.py
import os
from hmac import compare_digest

from aiohttp import web

from income_client.receivers import CallbackBearerAuth, CallbackReceiver
from income_client.receivers.aiohttp import routes


def is_known(token: str) -> bool:
    return compare_digest(token.encode(), os.environ["CALLBACK_TOKEN"].encode())


receiver = CallbackReceiver(print, auth=CallbackBearerAuth(verify=is_known))
app = web.Application()
app.add_routes(routes(receiver, "/callbacks"))

if __name__ == "__main__":
    web.run_app(app, host="127.0.0.1", port=9000)
