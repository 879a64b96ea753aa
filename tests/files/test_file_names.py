"""Templates for names: what may be written in them, and what is made of them."""

import re
from typing import Any

import pytest
from attrs import evolve

from income_client.downloads.naming import FileFacts, NameTemplate
from income_client.errors import ConfigurationError
from tests.support.places import SORTED

FACTS = FileFacts(
    application_id="app-1",
    document_type="paystub",
    document_id="doc-1",
    file=0,
    file_reference_id="ref-1",
)


def test_the_default_names_a_file_by_its_document() -> None:
    """Files are sorted by application and type, and named by their own ids."""
    name = SORTED.of(FACTS)
    assert name.folders == ("app-1", "paystub")
    assert name.stem == "doc-1-0"
    assert name.with_extension("pdf") == "doc-1-0.pdf"


@pytest.mark.parametrize(
    ("template", "folders", "name"),
    [
        ("{document_id}", (), "doc-1"),
        ("{document_id}.{ext}", (), "doc-1.pdf"),
        ("{document_id}.pdf", (), "doc-1.pdf"),
        ("all/{file_reference_id}.{ext}", ("all",), "ref-1.pdf"),
        ("{{x}}/{document_id}", ("{x}",), "doc-1"),
        ("a b/{document_type} {document_id}", ("a b",), "paystub doc-1"),
    ],
)
def test_a_template_is_text_with_plain_fields(
    template: str, folders: tuple[str, ...], name: str
) -> None:
    """Fields are replaced, the rest is kept."""
    made = NameTemplate.read(template).of(FACTS)
    assert (made.folders, made.with_extension("pdf")) == (folders, name)


@pytest.mark.parametrize("field", ["application_id", "document_type", "file_reference_id"])
def test_a_fact_that_is_not_known_is_asked_for(field: str) -> None:
    """The error names the field, and what can be done."""
    template = NameTemplate.read(f"{{{field}}}/{{document_id}}")
    unknown: dict[str, Any] = {field: None}
    with pytest.raises(ConfigurationError, match=re.escape(f"{{{field}}}")):
        template.of(evolve(FACTS, **unknown))


def test_a_name_that_becomes_that_of_a_device_is_changed() -> None:
    """A template's text and a fact can be harmless apart and not together."""
    facts = evolve(FACTS, document_id="N")
    assert NameTemplate.read("CO{document_id}.{ext}").of(facts).with_extension("txt") == "_CON.txt"
