"""The emulator of the guide's container as a process of its own, driven from this one."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from itertools import product
from typing import Final

import aiohttp
import pytest

from income_client import IncomeClient, IncomeClientError
from income_client.emulator import RemoteEmulator
from tests.slow.callback_processes import free_port
from tests.support.pages import EXAMPLES, GUIDE, contents
from tests.support.processes import environment, run, started

pytestmark = pytest.mark.timeout(300)

TOKEN: Final = "invented-control-token"
(DOCKERFILE,) = contents("dockerfile")
COMMANDS: Final = re.findall(
    r"^\| `(GET|POST) (/emulator/\S+)` \| (?:`(.+)`)? ?\| ",
    (GUIDE / "emulator.md").read_text(),
    re.MULTILINE,
)
"""Method, path and body of the commands that the page shows."""


def words_of(instruction: str) -> list[str]:
    """Return the words that an instruction of the container runs."""
    (words,) = re.findall(rf"^{instruction} (\[.+\])$", DOCKERFILE, re.MULTILINE)
    return list(json.loads(words))


async def visit(url: str) -> None:
    """Walk it while a fault is played, and send each command of the page."""
    with pytest.raises(IncomeClientError, match="control token"):
        await RemoteEmulator(url).start()
    async with RemoteEmulator(url, TOKEN) as remote:
        await remote.add_faults("list_applications: 503, cut")
        async with IncomeClient(url, auth=remote.oauth2) as client:
            ids = [row.application_id async for row in client.list_applications()]
        assert len(ids) == len(set(ids)) == 5000
        pages = [each for each in await remote.requests() if each.page]
        assert [each.fault for each in pages[:2]] == ["status", "cut"]
    assert len(COMMANDS) == 7
    hosts = {"127.0.0.1": 200, "emulator:8080": 200, "evil.example": 421}
    async with aiohttp.ClientSession() as session:
        for (method, path, body), (host, status) in product(COMMANDS, hosts.items()):
            sent = body.replace("...", ids[0])
            headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
            headers["Host"] = host
            async with session.request(method, url + path, data=sent, headers=headers) as answer:
                assert answer.status == status, path


def test_the_container_of_the_page_serves_other_processes() -> None:
    """The page's command and health check run unchanged but for the port, beside a test run."""
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
        example = str(EXAMPLES / "test_elsewhere.py")
        options = ("-q", "-p", "no:cacheprovider", "--noconftest", "-n0", "--rootdir=/")
        command = (sys.executable, "-m", "pytest", *options, f"--income-emulator={url}")
        ran = run(example, env=env, command=command)
        assert ran.status == 0, ran.stdout + ran.stderr
        emulator.send(signal.SIGTERM)
        ended = emulator.wait()
    assert (ended.status, ended.stderr) == (0, "")
    assert TOKEN not in ended.stdout
