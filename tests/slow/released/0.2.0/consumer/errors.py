# pyright: strict
"""A lender's code about errors; type checkers read it, nobody runs it."""

from typing import assert_type

from income_client import (
    ApplicationSummary,
    AuthenticationError,
    CallbackRejectedError,
    CheckpointConflictError,
    CheckpointError,
    ClientClosedError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    DecodeError,
    DownloadError,
    IncomeClient,
    IncomeClientError,
    InvalidRequestError,
    LinkRefusal,
    NotFoundError,
    PayloadFault,
    PermissionDeniedError,
    RateLimitedError,
    ResponseError,
    SaturatedWindowError,
    ServerError,
    TokenError,
    TransportError,
    UnexpectedResponseError,
    UnsafeLinkError,
    Window,
)

Passing = ConnectionFailedError | DeadlineExceededError | RateLimitedError | ServerError
Ours = AuthenticationError | PermissionDeniedError | ConfigurationError | ClientClosedError
TheService = InvalidRequestError | UnexpectedResponseError | TokenError


async def tries(client: IncomeClient) -> bool:
    """Each error carries what its catcher asks for."""
    try:
        await client.get_application("app-1")
    except NotFoundError as error:
        assert_type(error.request_id, str | None)
    except DecodeError as error:
        assert_type(error.faults, tuple[PayloadFault, ...])
        assert_type(error.faults[0].path, str)
    except SaturatedWindowError as error:
        assert_type(error.windows, tuple[Window, ...])
        assert_type(error.applications, tuple[ApplicationSummary, ...])
    except UnsafeLinkError as error:
        assert_type(error.document_id, str | None)
        assert_type(error.reason, LinkRefusal)
    except DownloadError as error:
        assert_type(error.code, str | None)
    except CallbackRejectedError as error:
        assert_type(error.reason, str)
    except CheckpointConflictError:
        raise
    except (ResponseError, TransportError, CheckpointError) as error:
        assert_type(error.status, int | None)
    except IncomeClientError as error:
        assert_type(error.retryable, bool)
        assert_type(error.retry_after, float | None)
        assert_type(error.attempts, int)
        assert_type(error.message, str)
        return error.retryable
    return True


def advice(error: IncomeClientError) -> str:
    """The tree is matched by class."""
    match error:
        case ConnectionFailedError() | DeadlineExceededError() | RateLimitedError():
            passing: Passing = error
            return f"later: {passing.message}"
        case AuthenticationError() | PermissionDeniedError() | ConfigurationError():
            ours: Ours = error
            return ours.message
        case InvalidRequestError() | UnexpectedResponseError() | TokenError():
            theirs: TheService = error
            return theirs.message
        case _:
            return str(error)
