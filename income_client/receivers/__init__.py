"""An endpoint for callbacks in a web application; imports no web framework itself."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from income_client.errors import CallbackRejectedError
    from income_client.records.callbacks import Callback

    from .auth import CallbackBasicAuth, CallbackBearerAuth
    from .certificates import CallbackClientCertificate
    from .exchange import UNIX_PEER, Answer, RequestHead
    from .issuer import CallbackTokenIssuer
    from .networks import CallbackSourceNetworks
    from .receiver import CallbackReceiver, ReceiverStatus
    from .tls import callback_ssl_context
else:
    from income_client._lazy import lazy_names

__all__ = [
    "UNIX_PEER",
    "Answer",
    "Callback",
    "CallbackBasicAuth",
    "CallbackBearerAuth",
    "CallbackClientCertificate",
    "CallbackReceiver",
    "CallbackRejectedError",
    "CallbackSourceNetworks",
    "CallbackTokenIssuer",
    "ReceiverStatus",
    "RequestHead",
    "callback_ssl_context",
]

NAMES: Final = {
    ".errors": "CallbackRejectedError",
    ".records.callbacks": "Callback",
    "auth": "CallbackBasicAuth CallbackBearerAuth",
    "certificates": "CallbackClientCertificate",
    "exchange": "UNIX_PEER Answer RequestHead",
    "issuer": "CallbackTokenIssuer",
    "networks": "CallbackSourceNetworks",
    "receiver": "CallbackReceiver ReceiverStatus",
    "tls": "callback_ssl_context",
}
"""The modules, and the names that each gives."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, NAMES)
