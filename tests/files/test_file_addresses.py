"""Addresses that expire, are wrong or lead elsewhere: renewed where that helps, never for ever."""

from pathlib import Path

import pytest
from attrs import evolve

from income_client import (
    AuthenticationError,
    DownloadError,
    IncomeClient,
    UnsafeLinkError,
)
from income_client.emulator import Emulator, Fault
from tests.support.downloads import files_below, scene


async def test_an_expired_address_is_replaced(tmp_path: Path) -> None:
    """The documents are read again, and the same document's address is used."""
    async with scene() as play:
        document = await play.document()
        play.service.advance(1000)
        await play.client.download(document, tmp_path / "slip.pdf")
        assert files_below(tmp_path) == {"slip.pdf": play.content(document)}
        assert [request.status for request in play.asked] == [403, 200]
        assert play.renewals == 1


async def test_an_address_that_expires_in_the_middle_is_replaced(tmp_path: Path) -> None:
    """The rest comes from the fresh one."""
    async with scene() as play:
        document = await play.document()
        play.fail("cut", keep=5000)
        await play.client.download(
            document,
            tmp_path / "slip.pdf",
            on_progress=lambda _: play.service.advance(1000) if not play.renewals else None,
        )
        assert files_below(tmp_path) == {"slip.pdf": play.content(document)}
        assert play.ranges == [None, "bytes=5000-", "bytes=5000-"]


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


async def test_an_address_that_stays_the_same_is_given_up(tmp_path: Path) -> None:
    """Asking for the very same one again would not help."""
    async with scene({"url_signed_once": True}) as play:
        document = await play.document()
        play.service.advance(1000)
        with pytest.raises(DownloadError, match="403"):
            await play.client.download(document, tmp_path / "slip.pdf")
        assert (len(play.asked), play.renewals) == (1, 1)


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


async def test_a_document_that_is_gone_is_told(tmp_path: Path) -> None:
    """Its application has no such document any more."""
    async with scene() as play:
        document = evolve(await play.document(), document_id="doc-gone")
        play.service.advance(1000)
        with pytest.raises(DownloadError, match="no such document any more"):
            await play.client.download(document, tmp_path / "slip.pdf")


async def test_credentials_that_are_refused_meanwhile_are_told(tmp_path: Path) -> None:
    """The failure of the renewal is the failure of the download."""
    async with scene() as play:
        document = await play.document()
        play.service.advance(1000)
        play.service.faults.add(Fault("status", status=401, path="/v1/*", times=None))
        with pytest.raises(AuthenticationError):
            await play.client.download(document, tmp_path / "slip.pdf")


async def test_many_expired_addresses_of_an_application_are_replaced_at_once(
    tmp_path: Path,
) -> None:
    """One request for the documents serves all of them."""
    async with scene() as play:
        documents = await play.client.get_documents(play.service.world.ids[1])
        count = len(list(documents.all()))
        assert count > 1
        play.service.requests.clear()
        play.service.advance(1000)
        files = [file async for file in play.client.download_all(documents, tmp_path)]
        assert len(files) == count
        assert play.renewals == 1


@pytest.mark.parametrize("hops", [1, 3])
async def test_redirects_between_regions_are_followed(tmp_path: Path, hops: int) -> None:
    """Each hop is asked like the first one, with nothing more."""
    async with scene({"file_redirects": hops}) as play:
        document = await play.document()
        await play.client.download(document, tmp_path / "slip.pdf")
        assert files_below(tmp_path) == {"slip.pdf": play.content(document)}
        assert [request.status for request in play.asked] == [307] * hops + [200]
        assert len({request.headers["host"] for request in play.asked}) == 2
        assert not any(request.authorized for request in play.asked)


async def test_redirects_end(tmp_path: Path) -> None:
    """More than the policy has is an error."""
    async with scene({"file_redirects": 4}) as play:
        document = await play.document()
        with pytest.raises(DownloadError, match="redirects too often"):
            await play.client.download(document, tmp_path / "slip.pdf")
        assert len(play.asked) == 4


@pytest.mark.parametrize(
    "location",
    ["http://{host}@evil.example/", "https://evil.example/", "//evil.example/x", "ftp://x/", ""],
)
async def test_a_redirect_to_elsewhere_is_refused(tmp_path: Path, location: str) -> None:
    """Where it leads is held against the policy before anything is sent there."""
    async with scene() as play:
        document = await play.document()
        play.fail("redirect", location=location)
        with pytest.raises(DownloadError) as caught:
            await play.client.download(document, tmp_path / "slip.pdf")
        assert len(play.asked) == 1
        assert "x" not in location or isinstance(caught.value, UnsafeLinkError)


async def test_a_redirect_to_another_service_on_this_machine_is_refused(tmp_path: Path) -> None:
    """Only the ports of the policy are reached, also on loopback."""
    async with scene() as play, Emulator(1) as other:
        document = await play.document()
        play.fail("redirect", location=f"{other.url}/v1/income/applications")
        with pytest.raises(UnsafeLinkError):
            await play.client.download(document, tmp_path / "slip.pdf")
        assert other.requests == []


@pytest.mark.parametrize(
    "address",
    [
        "",
        "file:///etc/passwd",
        "https://s3.amazonaws.com.evil.example/x",
        "https://evil.example\\@s3.amazonaws.com/x",
        "https://user@bucket.s3.amazonaws.com/x",
        "https://amazonaws.com/x",
        "https://bucket.s3.amazonaws.com:8443/x",
        "http://bucket.s3.amazonaws.com/x",
        "https://bucket.s3.amazonaws.com/x\r\nHost: evil.example",
        "https://[::ffff:127.0.0.1]/x",
        "https://bucket.s3.amazonaws.com/x#y",
        "https://bücket.s3.amazonaws.com/x",
    ],
)
async def test_unsafe_addresses_of_the_service_are_refused(tmp_path: Path, address: str) -> None:
    """Under the default policy nothing of these is even looked up."""
    async with scene() as play:
        document = evolve(await play.document(), url=address)
        async with IncomeClient(play.service.url, auth=play.service.oauth2) as client:
            with pytest.raises(UnsafeLinkError) as caught:
                await client.download(document, tmp_path / "slip.pdf")
        assert caught.value.document_id == document.document_id
        assert files_below(tmp_path) == {}
