"""The emulator of the guide's container as a process of its own, driven from this one."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from typing import Any, Final

import aiohttp
import pytest

from income_client import IncomeClient, IncomeClientError
from income_client.emulator import RemoteEmulator
from tests.support.callback_processes import free_port
from tests.support.pages import EXAMPLES, GUIDE, contents
from tests.support.processes import environment, started

pytestmark = pytest.mark.timeout(300)

TOKEN: Final = "invented-control-token"
(DOCKERFILE,) = contents("dockerfile")
CALLS: Final = re.findall(
    r"^\| `(GET|PATCH|POST) (/emulator/\S+)` \| (?:`(.+)`)? ?\| ",
    (GUIDE / "testing.md").read_text(),
    re.MULTILINE,
)
"""Method, path and body of the calls that the page shows."""


def words_of(instruction: str) -> list[str]:
    """Return the words that an instruction of the container runs."""
    (words,) = re.findall(rf"^{instruction} (\[.+\])$", DOCKERFILE, re.MULTILINE)
    return list(json.loads(words))


async def visit(url: str) -> None:
    """Control it, walk it while a fault is played, and make each call of the page."""
    with pytest.raises(IncomeClientError, match="control token"):
        await RemoteEmulator(url).start()
    async with RemoteEmulator(url, TOKEN) as remote:
        before = await remote.now()
        await remote.advance(3600)
        assert await remote.now() >= before + 3600
        await remote.faults.add("list_applications: 503, cut")
        async with IncomeClient(url, auth=remote.oauth2) as client:
            ids = [row.application_id async for row in client.list_applications()]
        assert len(ids) == len(set(ids)) == 5000
        pages = [each for each in await remote.requests() if each.page]
        assert [each.fault for each in pages[:2]] == ["status", "cut"]
        full = [each.page for each in pages if each.page and each.page.full]
        assert full
        assert all(each.rows == each.limit == 1000 for each in full)
    assert len(CALLS) == 8
    async with aiohttp.ClientSession() as session:
        for method, path, body in CALLS:
            address = url + path.replace("{application_id}", ids[0])
            headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
            async with session.request(method, address, data=body, headers=headers) as answer:
                assert answer.status in (200, 201), address
            foreign = {**headers, "Host": "evil.example"}
            async with session.request(method, address, data=body, headers=foreign) as answer:
                assert answer.status == 421
            named = {**headers, "Host": "emulator:8080"}
            async with session.request(method, address, data=body, headers=named) as answer:
                assert answer.status in (200, 201)


def test_the_container_of_the_page_serves_other_processes() -> None:
    """Its command and its check are run as they are, but for the port; a test run uses it too."""
    assert "'/package[cli]'" in DOCKERFILE
    port = str(free_port())
    program, *words = (word.replace("8080", port) for word in words_of("ENTRYPOINT"))
    assert program == "income-client"
    env = environment(None, INCOME_EMULATOR_TOKEN=TOKEN)
    with started(*words, env=env) as emulator:
        printed = emulator.stdout.wait_for("# Other hosts").splitlines()
        url = f"http://127.0.0.1:{port}"
        assert f"export INCOME_BASE_URL={url}" in printed
        assert f"# Other hosts reach it at http://emulator:{port}." in printed
        check = [word.replace("8080", port) for word in words_of("HEALTHCHECK CMD")]
        subprocess.run([sys.executable, *check[1:]], check=True, env=env)
        asyncio.run(visit(url))
        options: Any = ["-q", "-p", "no:cacheprovider", "--noconftest", "-n0", "--rootdir=/"]
        example = str(EXAMPLES / "test_elsewhere.py")
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", *options, f"--income-emulator={url}", example],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        emulator.send(signal.SIGTERM)
        ended = emulator.wait()
    assert (ended.status, ended.stderr) == (0, "")
    assert TOKEN not in ended.stdout
    with pytest.raises(IncomeClientError, match="no emulator answers"):
        asyncio.run(RemoteEmulator(url, TOKEN).start())


def test_it_makes_a_token_of_its_own() -> None:
    """The printed line is what another process needs, and other hosts' names come with it."""
    with started("emulate", "--remote-control", "--applications", "3", env=environment()) as one:
        lines = one.stdout.wait_for("export INCOME_EMULATOR_TOKEN=").splitlines()
        (token,) = (line.partition("TOKEN=")[2] for line in lines if "_TOKEN=" in line)
        (url,) = (line.partition("URL=")[2] for line in lines if "BASE_URL=" in line)

        async def count() -> int:
            async with RemoteEmulator(url, token) as remote:
                return len(await remote.applications())

        assert asyncio.run(count()) == 3
        one.send(signal.SIGTERM)
        assert one.wait().status == 0
