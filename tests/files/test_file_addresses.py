"""Addresses that expire or are wrong: renewed where that helps, never for ever."""

from pathlib import Path

import pytest
from attrs import evolve

from income_client import (
    AuthenticationError,
    DownloadError,
)
from income_client.emulator import Fault
from tests.support.downloads import files_below, scene


async def test_an_address_that_never_is_fresh_is_given_up(tmp_path: Path) -> None:
    """Addresses handed out expired are replaced three times, and that is all."""
    async with scene({"url_age": 3600}) as play:
        document = await play.document()
        play.service.advance(1)
        with pytest.raises(DownloadError, match="403") as caught:
            await play.client.download(document, tmp_path / "slip.pdf")
        assert caught.value.status == 403
        assert len(play.asked) <= 4
        assert play.renewals <= 3
        assert files_below(tmp_path) == {}


async def test_a_wrong_signature_is_no_reason_to_go_on_for_ever(tmp_path: Path) -> None:
    """One fresh address is tried, since an address may have been replaced."""
    async with scene() as play:
        document = await play.document()
        wrong = evolve(document, url=f"{document.url[:-4]}0000")
        await play.client.download(wrong, tmp_path / "slip.pdf")
        assert (len(play.asked), play.renewals) == (2, 1)
        play.fail("status", times=None, status=403, body=b"<Code>SignatureDoesNotMatch</Code>")
        with pytest.raises(DownloadError) as caught:
            await play.client.download(document, tmp_path / "other.pdf")
        assert caught.value.code == "SignatureDoesNotMatch"
        assert (len(play.asked), play.renewals) == (3, 2)  # in one second, the address is the same


async def test_a_document_made_by_hand_has_no_fresh_address(tmp_path: Path) -> None:
    """Nobody knows which application to ask."""
    async with scene() as play:
        document = evolve(await play.document(), source=None)
        play.service.advance(1000)
        with pytest.raises(DownloadError, match="403"):
            await play.client.download(document, tmp_path / "slip.pdf")
        assert play.renewals == 0


async def test_credentials_that_are_refused_meanwhile_are_told(tmp_path: Path) -> None:
    """The failure of the renewal is the failure of the download."""
    async with scene() as play:
        document = await play.document()
        play.service.advance(1000)
        play.service.faults.add(Fault("status", status=401, path="/v1/*", times=None))
        with pytest.raises(AuthenticationError):
            await play.client.download(document, tmp_path / "slip.pdf")
