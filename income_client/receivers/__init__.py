"""An endpoint for callbacks in a web application; imports no web framework itself."""

from .exchange import UNIX_PEER, Answer, RequestHead
from .receiver import CallbackReceiver, ReceiverStatus
from .tls import callback_ssl_context

__all__ = [
    "UNIX_PEER",
    "Answer",
    "CallbackReceiver",
    "ReceiverStatus",
    "RequestHead",
    "callback_ssl_context",
]
