"""The page of an emulator in a browser: a walk is drawn on it, and its buttons are pressed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from income_client import SyncIncomeClient
from income_client.emulator import Emulator, HttpRequest
from income_client.emulator.journal import MOST_ENTRIES
from income_client.emulator.times import START, second_of, stamp
from income_client.settings import Secret
from tests.slow.browser import Browser
from tests.support.emulated import LIST
from tests.support.processes import beside

HOSTILE: Final = f"<img src=x onerror=\"document.title='owned'\">&amp;'}};--><script>{'x' * 100}"
NOW: Final = second_of(START)
BULK: Final = [NOW - 3_000_000 + n // 200 for n in range(1500)]
DAYS: Final = [NOW - 90_000 * n for n in range(1, 80)]
TIMES: Final = sorted([*BULK, *DAYS])
TOKEN: Final = "invented-control-token"


class Shown:
    """The page of an emulator in a browser."""

    def __init__(self, opened: Browser, service: Emulator) -> None:
        self.browser = opened
        self.service = service
        opened.open(service.url)

    def value(self, expression: str) -> Any:
        """Return what an expression is on it."""
        return self.browser.evaluate(expression)

    def until(self, condition: str) -> None:
        """Wait until an expression is true on it."""
        self.browser.wait_until(condition)

    def press(self, button: str, said: str) -> None:
        """Press a button, and wait until the page says what became of it."""
        self.value(f"document.querySelector({button!r}).click()")
        self.until(f"byId('done').textContent.includes({json.dumps(said)})")

    def write(self, field: str, text: str) -> None:
        """Write a text into a field."""
        self.value(
            f"byId({field!r}).value = {json.dumps(text)};"
            f"byId({field!r}).dispatchEvent(new Event('input'))"
        )

    def leave(self) -> None:
        """Close it."""
        self.browser.open("about:blank")


@contextmanager
def shown(opened: Browser, service: Emulator) -> Iterator[Shown]:
    """Run an emulator, and show its page."""
    with beside(service):
        page = Shown(opened, service)
        yield page
        page.leave()


def test_a_walk_is_drawn_as_it_happens(opened: Browser) -> None:
    """Each list request is a window on it; it fits, and keeps up with ten thousand requests."""
    service = Emulator(TIMES)
    request = HttpRequest(method="GET", path=f"{LIST}/app-1")
    for _ in range(MOST_ENTRIES):
        service.journal.add(request, status=404, fault=None, listed=None, seconds=0.1, second=NOW)
    with shown(opened, service) as page:
        page.until(f"entries.length === {MOST_ENTRIES} && histogram && isConnected")
        commands = page.value("byId('commands').textContent")
        assert f"export INCOME_BASE_URL={service.url}\n" in commands
        assert service.oauth2.client_secret.reveal() in commands
        assert page.value("sum(histogram.rows)") == len(TIMES)

        with SyncIncomeClient(service.url, auth=service.oauth2) as client:
            assert len(list(client.list_applications())) == len(TIMES)
            client.get_application(service.world.ids[0])
        pages = [each.page for each in service.journal.after(0) if each.page]
        full = sum(each.full for each in pages)
        assert full >= 1
        page.until(f"last === {service.journal.last} && byId('journal').rows.length === 200")
        page.until(f"document.querySelectorAll('#windows > div').length === {len(pages)}")
        assert page.value("document.querySelectorAll('#windows > .full').length") == full
        (newest,) = service.journal.after(service.journal.last - 1)
        shown_id = page.value("byId('journal').rows[0].cells[0].title")
        assert shown_id == f"request id {newest.request_id}"
        label = page.value("byId('picture').getAttribute('aria-label')")
        assert f"{len(pages)} list requests, {full} full page" in label

        papers = []
        for width, scheme in ((360, "light"), (2000, "dark")):
            opened.dress(width=width, scheme=scheme)
            seen = opened.see()
            assert (seen.cut, seen.outside) == ((), ())
            assert all(url.startswith(service.url) for url in seen.requests if url != "data:,")
            assert seen.complaints == ()
            papers.append(seen.background)
        assert papers == ["rgb(253, 253, 252)", "rgb(20, 23, 27)"]


def test_its_buttons_control_the_service(opened: Browser) -> None:
    """An update, the clock, a fault, a new application, whose reference is text, and a reset."""
    with shown(opened, Emulator(30)) as page:
        service = page.service
        page.until("found.length")
        chosen = page.value("choose(found[3].application_id).then(() => chosen)")
        page.until("!byId('application').hidden && byId('incomes').rows.length > 1")
        page.press("[data-advance='86400']", "2026-07-01 12:00:00")
        page.press("#update", "at 2026-07-01 12:00:00")
        number = service.world.number_of(chosen)
        assert number is not None
        assert stamp(service.world.updated_second(number)) == "2026-07-01T12:00:00"
        page.until("byId('facts').textContent.includes('2026-07-01 12:00:00')")
        page.until("found[0].application_id === chosen")

        page.write("fault", "list_applications: 503 x2")
        page.press("#fault-form button", "Added")
        assert len(service.faults) == 1
        page.until("byId('faults').textContent === 'list_applications: 503, 2 left'")
        page.write("fault", "503 often")
        page.press("#fault-form button", "Not done: ")
        page.press("#callback", "nowhere to send callbacks to")

        page.press("#clear-faults", "No faults are left")

        page.write("reference", HOSTILE)
        page.press("#add-form button", "Added: <img src=x")
        page.until(f"byId('reference-shown').textContent === {json.dumps(HOSTILE)}")
        opened.dress(width=360)
        seen = opened.see()
        assert seen.outside == ()
        assert page.value("document.images.length") == 0
        assert page.value("document.title") == "Income emulator"
        page.write("search", "<img")
        page.until("found.length === 1 && byId('found').textContent.includes('<script>')")
        page.write("reference", f"{HOSTILE} again")
        page.press("#add-form button", "again.")
        page.until("found.length === 2")
        with SyncIncomeClient(service.url, auth=service.oauth2) as client:
            added = client.find_application(HOSTILE)
            assert added is not None
            assert client.get_application(added.application_id).income_calculations
            assert client.get_documents(added.application_id).documents
        page.press("#remove", "Removed.")
        page.press("#reset", "as when it was started")
        page.until("!entries.length && byId('journal').rows.length === 0")
        assert len(service.world) == 30
        # What was refused above, and nothing else.
        assert all(each.startswith("Failed to load") for each in opened.see().complaints)


def test_it_asks_for_the_token_and_connects_again(opened: Browser) -> None:
    """A token stays in the tab, and a page whose emulator ends shows the next one."""
    service = Emulator(5, control_token=Secret(TOKEN))
    with beside(service):
        page = Shown(opened, service)
        for token in ("wrong-token", TOKEN):
            page.until("!byId('access').hidden")
            assert page.value("document.activeElement.id") == "token"
            page.write("token", token)
            page.value("byId('access').requestSubmit()")
        page.until("isConnected && found.length === 5")
        assert TOKEN not in page.value("location.href + document.cookie + document.body.innerText")
        assert page.value("localStorage.length") == 0
    port = int(service.url.rpartition(":")[2])
    page.until("!isConnected && byId('connection').textContent.includes('Trying again')")
    page.service = Emulator(3, seed=8, port=port, control_token=Secret(TOKEN))
    with beside(page.service):
        page.until("isConnected && state.seed === 8 && found.length === 3")
        page.leave()


def test_no_page_of_another_origin_reaches_it(opened: Browser) -> None:
    """Neither a fetch nor a frame of a page from another port reads or changes anything."""
    with beside(Emulator(5)) as other, shown(opened, Emulator(5)) as page:
        service = page.service
        page.until("isConnected && found.length")
        page.leave()
        before = service.now, len(service.world), len(service.requests)
        opened.open(f"{other.url}/nowhere")
        tried = page.value(f"""
          Promise.allSettled([
            fetch("{service.url}/emulator/environment"),
            fetch("{service.url}/emulator/requests", {{mode: "no-cors"}}),
            fetch("{service.url}/emulator/reset", {{method: "POST", mode: "no-cors"}}),
            fetch("{service.url}/emulator/advance", {{method: "POST", mode: "no-cors",
              body: '{{"seconds": 9}}'}}),
            new Promise(done => {{
              const frame = document.createElement("iframe");
              frame.onload = () => done(frame.contentDocument);
              frame.src = "{service.url}/";
              document.body.append(frame);
            }}),
          ]).then(all => all.map(each => each.status))
        """)
        assert tried == [*["rejected"] * 4, "fulfilled"]
        assert any("frame" in each for each in opened.see().complaints)
        came = [
            (request.name, request.status)
            for request in service.requests[before[2] :]
            if request.headers.get("sec-fetch-site") != "same-origin"  # of the page that was left
        ]
        assert came == []  # the emulator records no request of another origin's page
        assert (service.now, len(service.world)) == before[:2]
