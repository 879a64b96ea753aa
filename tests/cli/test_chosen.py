"""Which applications a command is about, and how many are known of them."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from income_client import ConfigurationError, IncomeClient
from income_client.cli.arguments.chosen import Chosen, Known
from income_client.cli.arguments.id_lines import read_ids
from income_client.cli.downloads.bars import Bars
from income_client.emulator import Emulator


@contextmanager
def pipe(content: bytes) -> Iterator[int]:
    """Lend the end of a pipe that somebody has written to and left."""
    reading, writing = os.pipe()
    try:
        os.write(writing, content)
        os.close(writing)
        yield reading
    finally:
        os.close(reading)


async def test_named_ones_are_known_at_once() -> None:
    """What stands on the command line is counted before anything is read, each id once."""
    heard: list[Known] = []
    chosen = Chosen(("a", "b", "a"), on_known=heard.append)
    assert heard == [Known(count=2, is_all=True)]
    assert [one async for one in chosen.ids()] == ["a", "b"]
    assert heard[-1] == Known(count=2, is_all=True)
    assert chosen.saturated == ()


async def test_a_walk_is_counted_as_it_goes() -> None:
    """Until a walk has ended, more may come."""
    heard: list[Known] = []
    async with (
        Emulator(5) as service,
        IncomeClient(service.url, auth=service.oauth2) as client,
    ):
        chosen = Chosen(changed=client.list_applications(), on_known=heard.append)
        assert {one async for one in chosen.ids()} == set(service.world.ids)
    assert [one.count for one in heard] == [0, 1, 2, 3, 4, 5, 5]
    assert [one.is_all for one in heard] == [False] * 6 + [True]


async def test_lines_may_come_in_pieces() -> None:
    """A line that is longer than what a pipe holds is one line all the same."""
    record = b'{"application":{"application_id":"long","padding":"' + b"x" * 40_000 + b'"}}'
    with pipe(b"short\n" + record + b"\nlast") as descriptor:
        assert [one async for one in read_ids(descriptor)] == ["short", "long", "last"]


async def test_input_that_cannot_be_read_is_told() -> None:
    """A descriptor of nothing is an error of whoever gave it."""
    with pipe(b"") as descriptor:
        pass
    with pytest.raises(ConfigurationError, match="standard input cannot be read: bad file"):
        assert [one async for one in read_ids(descriptor)] == []


@pytest.mark.parametrize(
    "line", [b'{"ssn":"CANARY"}', b"CANARY\xff", b'{"application_id":7,"a":"CANARY']
)
async def test_no_frame_of_the_error_holds_a_line(line: bytes) -> None:
    """A line may be a record of somebody's: crash reports about it have none."""
    before = b'{"application_id":"app-1","ssn":"CANARY"}\n'
    caught = None
    with pipe(before + line + b"\n" + before + b'{"ssn":"CANARY"') as descriptor:
        try:
            assert [one async for one in read_ids(descriptor)] == []
        except ConfigurationError as error:
            caught = error
        # Who reads ahead would go on with whatever gets the descriptor's number next.
        for thread in threading.enumerate():
            if thread.name == "standard input":
                await asyncio.to_thread(thread.join)
    assert caught is not None
    assert caught.message == "line 2 of standard input has no id of an application"
    assert caught.__context__ is None
    inner = caught.__traceback__ and caught.__traceback__.tb_next
    while inner is not None:
        assert "CANARY" not in repr(inner.tb_frame.f_locals)
        inner = inner.tb_next


def test_bars_say_that_more_may_come() -> None:
    """The whole has a plus behind its number as long as it may grow."""
    bars = Bars(is_wanted=False)
    for known, said in (
        (Known(count=0, is_all=False), "0 of 0+ applications"),
        (Known(count=1, is_all=False), "0 of 1+ applications"),
        (Known(count=1, is_all=True), "0 of 1 application"),
    ):
        bars.expect(known)
        assert [task.description for task in bars._whole.tasks] == [said]
