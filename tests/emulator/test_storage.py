"""What storage does with addresses and files, asked without a socket."""

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from attrs import evolve

from income_client.emulator import HttpReply, HttpRequest, Service
from income_client.emulator.storage import Region
from income_client.errors import ConfigurationError
from tests.support.emulated_replies import HOST, LIST, a_service, ask_json


def _documents(service: Service) -> list[dict[str, Any]]:
    content = ask_json(service, f"{LIST}/{service.world.ids[0]}/documents")
    return [document for some in content["documents"].values() for document in some]


def _address(service: Service) -> str:
    address = _documents(service)[0]["url"]
    assert isinstance(address, str)
    return address


def _fetch(
    service: Service, address: str, region: Region = Region.FIRST, **headers: str
) -> HttpReply:
    parts = urlsplit(address)
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return service.respond_file(
        HttpRequest(method="GET", path=parts.path, query=parts.query, headers={**HOST, **named}),
        region,
    )


def _change_rules(service: Service, **knobs: Any) -> None:
    service.world.rules = evolve(service.world.rules, **knobs)


def test_a_replaced_file() -> None:
    """A replaced file has other bytes and another entity tag, and its old address leads to it."""
    service = a_service(100, file_bytes=500)
    document = _documents(service)[0]
    seen = set()
    for _ in range(3):
        reply = _fetch(service, document["url"])
        stored = service.storage.file_of(document["document_id"])
        assert (reply.status, len(reply.body)) == (200, 500)
        assert (reply.body, reply.headers["ETag"]) == (stored.content, stored.etag)
        assert reply.headers["Content-Type"] == stored.content_type
        seen |= {stored.content, stored.etag}
        service.storage.replace(document["document_id"])
    assert len(seen) == 6


def test_a_replaced_file_is_not_continued() -> None:
    """A range of the file that was there before gives the whole file that is there now."""
    service = a_service(100, file_bytes=500)
    document = _documents(service)[0]
    etag = _fetch(service, document["url"]).headers["ETag"]
    service.storage.replace(document["document_id"])
    reply = _fetch(service, document["url"], range="bytes=100-", if_range=etag)
    assert (reply.status, len(reply.body)) == (200, 500)


def test_replacing_one_file_leaves_the_others() -> None:
    """Only the file that is replaced changes."""
    service = a_service(100)
    first, second = _documents(service)[:2]
    before = service.storage.file_of(second["document_id"])
    service.storage.replace(first["document_id"])
    assert service.storage.file_of(second["document_id"]) == before


def test_the_size_can_change_at_any_time() -> None:
    """Another size is another file under the same address, of megabytes as well."""
    service = a_service(100)
    address = _address(service)
    etags = set()
    for size in (1, 100, 4 * 2**20):
        _change_rules(service, file_bytes=size)
        reply = _fetch(service, address)
        assert len(reply.body) == size
        etags.add(reply.headers["ETag"])
    assert len(etags) == 3


@pytest.mark.parametrize("name", ["", "doc", "doc-0000000000-01", "doc-{stem}-99", "app-{stem}"])
def test_files_of_no_document(name: str) -> None:
    """What is told or replaced by the id of no document is a configuration error."""
    service = a_service(100)
    name = name.format(stem=service.world.ids[0][4:])
    for call in (service.storage.file_of, service.storage.replace):
        with pytest.raises(ConfigurationError, match="there is no document"):
            call(name)


def test_a_cookie_is_refused() -> None:
    """A cookie is answered with 400, and credentials with what came, as object storage does."""
    service = a_service(100)
    reply = _fetch(service, _address(service), cookie="a=b")
    assert reply.status == 400
    reply = _fetch(service, _address(service), authorization="Bearer <x>")
    assert reply.status == 400
    assert b"<ArgumentValue>Bearer &lt;x&gt;</ArgumentValue>" in reply.body


def test_addresses_that_have_expired_already() -> None:
    """Addresses can be handed out as old as one likes."""
    service = a_service(100, url_lifetime=60, url_age=59)
    assert _fetch(service, _address(service)).status == 200
    _change_rules(service, url_age=60)
    reply = _fetch(service, _address(service))
    assert reply.status == 403
    assert b"<Expires>1970-01-01T00:16:40Z</Expires>" in reply.body


def test_addresses_that_never_change() -> None:
    """Addresses signed once stay as they are, even when they have expired."""
    service = a_service(100, url_lifetime=60, url_signed_once=True)
    address = _address(service)
    assert _fetch(service, address).status == 200
    service.world.advance_to(1060)
    assert _address(service) == address
    assert _fetch(service, address).status == 403
    _change_rules(service, url_signed_once=False)
    assert _fetch(service, _address(service)).status == 200


def test_a_refused_signature_is_shown() -> None:
    """A wrong signature comes back in the error, so that a client must not show that."""
    service = a_service(100)
    address = _address(service)[:-4] + "0000"
    reply = _fetch(service, address)
    assert reply.status == 403
    assert f"<SignatureProvided>{address[-64:]}</SignatureProvided>".encode() in reply.body


@pytest.mark.parametrize("redirects", [1, 2, 5])
def test_regions_send_on(redirects: int) -> None:
    """A region sends on to the other with a fresh signature, as often as the rules say."""
    service = a_service(100, file_redirects=redirects, url_lifetime=60)
    service.storage.urls = {Region.FIRST: "http://127.0.0.1:1", Region.SECOND: "http://127.0.0.1:2"}
    address, region = _address(service), Region.FIRST
    for _ in range(redirects):
        service.world.advance_to(service.world.now + 59)
        reply = _fetch(service, address, region)
        assert reply.status == 307
        assert b"<Code>TemporaryRedirect</Code>" in reply.body
        address, region = reply.headers["Location"], region.other
        assert address.startswith(service.storage.urls[region])
    assert _fetch(service, address, region).status == 200


def test_regions_know_their_addresses() -> None:
    """An address of one region is refused by the other, and hops cannot be made up."""
    service = a_service(100, file_redirects=1)
    address = _address(service)
    reply = _fetch(service, address, Region.SECOND)
    assert reply.status == 400
    assert re.search(rb"<Code>AuthorizationQueryParametersError</Code>", reply.body)
    forged = address.replace("&X-Amz-Signature", "&x-hops=1&X-Amz-Signature")
    assert _fetch(service, forged).status == 403


def test_the_policy_of_a_client() -> None:
    """The policy allows both regions on this machine, in plain http, and nothing else."""
    service = a_service(100)
    service.storage.urls = {Region.FIRST: "http://127.0.0.1:1", Region.SECOND: "http://[::1]:2"}
    policy = service.storage.policy()
    assert policy.allowed_hosts == ("127.0.0.1:1", "[::1]:2")
    assert not policy.require_https
    assert policy.allow_private_networks
