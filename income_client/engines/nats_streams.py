"""Streams of NATS JetStream that delete events before a worker has handled them."""

import asyncio
from collections.abc import Iterator
from typing import Final

from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import (
    ConsumerConfig,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
    StreamInfo,
)

from income_client import ConfigurationError
from income_client.system.logs import GuardedLogger

_LOGGER: Final = GuardedLogger("income_client.nats")
_SHORTEST_AGE: Final = 3 * 86_400.0
"""Seconds of a weekend: workers may be away for so long before anybody notices."""


def deletes_when_full(config: StreamConfig) -> bool:
    """Return whether a stream deletes its oldest messages in place of refusing new ones."""
    limits = (config.max_msgs or 0, config.max_bytes or 0)
    return config.discard != DiscardPolicy.NEW and max(limits) > 0


async def loss_of(js: JetStreamContext, info: StreamInfo, subject: str) -> str | None:
    """Return how a stream deletes messages of a subject that no worker has handled.

    None if it keeps them.
    """
    config = info.config
    if deletes_when_full(config):
        return "deletes its oldest messages once it is full"
    is_refusing = config.discard == DiscardPolicy.NEW and config.discard_new_per_subject
    if config.max_msgs_per_subject > 0 and not is_refusing:
        return f"keeps {config.max_msgs_per_subject} messages of a subject, and deletes older ones"
    if config.retention == RetentionPolicy.INTEREST:
        consumers = await js.consumers_info(config.name or "")
        if not any(_is_interested(consumer.config, subject) for consumer in consumers):
            return f"has retention 'interest' and no consumer of {subject}: it deletes each message"
    return None


def _is_interested(consumer: ConsumerConfig, subject: str) -> bool:
    """Return whether a consumer gets the messages of a subject."""
    filters = consumer.filter_subjects or [consumer.filter_subject or ">"]
    return any(_matches(subject.split("."), pattern.split(".")) for pattern in filters)


def _matches(subject: list[str], pattern: list[str]) -> bool:
    if pattern[-1] == ">":
        pattern = [*pattern[:-1], *["*"] * max(1, len(subject) - len(pattern) + 1)]
    is_equal = all(token in {"*", part} for token, part in zip(pattern, subject, strict=False))
    return len(pattern) == len(subject) and is_equal


def risks_of(config: StreamConfig) -> Iterator[str]:
    """Yield the settings of a stream by which messages are lost in an outage."""
    if config.storage == StorageType.MEMORY:
        yield "is kept in memory: a restart of the server deletes its messages"
    if config.max_age and config.max_age < _SHORTEST_AGE:
        yield f"deletes messages after {config.max_age:g} s: longer outages of workers lose them"


async def refuse_loss(js: JetStreamContext, info: StreamInfo, subject: str) -> None:
    """Raise `ConfigurationError` if a stream deletes messages that no worker has handled."""
    if loss := await loss_of(js, info, subject):
        advice = "remove the limit, make it with --discard new, or start a worker first"
        raise ConfigurationError(f"the stream {info.config.name!r} {loss}: {advice}")


class StreamCheck:
    """Checks the stream of a subject once, before the first message to it."""

    def __init__(self, js: JetStreamContext, subject: str) -> None:
        self._js, self._subject = js, subject
        self._lock = asyncio.Lock()
        self._is_done = False

    async def run(self) -> None:
        """Refuse a stream that loses messages, and warn of its risks, unless it was checked.

        Raises:
            ConfigurationError: the stream deletes messages that no worker has handled.
        """
        async with self._lock:
            if self._is_done:
                return
            try:
                name = await self._js.find_stream_name_by_subject(self._subject)
                info = await self._js.stream_info(name)
                await refuse_loss(self._js, info, self._subject)
            except TimeoutError:
                text = "the stream of %r may delete events: this user may not read its settings"
                _LOGGER.warning(text, self._subject, extra={"subject": self._subject})
            except NatsError:
                return  # as the publication itself will show
            else:
                for risk in risks_of(info.config):
                    _LOGGER.warning("the stream %r %s", name, risk, extra={"stream": name})
            self._is_done = True
