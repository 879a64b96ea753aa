"""An endpoint for callbacks, in one's own web application; imports no web framework itself."""

from income_client.protocol.callbacks.exchange import UNIX_PEER, Answer, RequestHead

from .receiver import CallbackReceiver
from .status import ReceiverStatus
from .tls import callback_ssl_context

__all__ = [
    "UNIX_PEER",
    "Answer",
    "CallbackReceiver",
    "ReceiverStatus",
    "RequestHead",
    "callback_ssl_context",
]
