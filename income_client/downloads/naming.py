"""What a document's file is called in a folder or a store; knows no disk.

Names from the service are data: each becomes one safe component, or a part of
one, wherever it stands in a template.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from string import Formatter
from typing import Final, Self, TypeAlias, assert_never

from attrs import frozen

from income_client.errors import ConfigurationError

from .safe_names import LONGEST, is_safe_at_ends, is_safe_text, safe_component, without_reserved

DEFAULT_TEMPLATE: Final = "{application_id}/{document_type}/{document_id}-{file}.{ext}"
"""Where files go in a folder unless the caller says otherwise."""

_MOST_COMPONENTS: Final = 8
_LONGEST_NAME: Final = 255
_LONGEST_NUMBER: Final = 6
_LONGEST_EXTENSION: Final = 5


@frozen
class FileFacts:
    """What is known of a file before it is there."""

    application_id: str | None
    """Id of the application, None where the document does not tell."""
    document_type: str | None
    """Type of the document, such as ``paystub``."""
    document_id: str
    """Id of the document (contract section 2.3)."""
    file: int
    """Which of the document's files, counted from 0."""
    file_reference_id: str | None
    """The lender's own name for the file, which need not be the only one of its kind."""


class NameField(Enum):
    """A field of a template."""

    APPLICATION_ID = "application_id"
    DOCUMENT_TYPE = "document_type"
    DOCUMENT_ID = "document_id"
    FILE = "file"
    FILE_REFERENCE_ID = "file_reference_id"
    EXT = "ext"


_Piece: TypeAlias = str | NameField
_Component: TypeAlias = tuple[_Piece, ...]

_FIELDS: Final = {field.value: field for field in NameField}


@frozen
class FileName:
    """Where a file goes, relative to a folder, with its extension still open."""

    folders: tuple[str, ...]
    """Names of the folders on the way, the outermost first."""
    stem: str
    """The name without its extension; all of it where the template has no ``{ext}``."""
    has_extension: bool
    """Whether an extension belongs behind the stem."""

    def named(self, extension: str) -> str:
        """Return the last component, for a file with this extension."""
        return f"{self.stem}.{extension}" if self.has_extension else self.stem


@frozen
class NameTemplate:
    """How names are made of the facts; `read` makes one of a text."""

    text: str
    """As the caller wrote it."""
    components: tuple[_Component, ...]
    """Its pieces, by component; an ``{ext}`` at the end is left out."""
    has_extension: bool
    """Whether it ends with ``.{ext}``."""

    @classmethod
    def read(cls, text: object) -> Self:
        """Read a template such as `DEFAULT_TEMPLATE`.

        It must contain ``{document_id}``, or ``{file_reference_id}``: two documents
        may have the same one of those, and then the second is refused, unless
        its file is the same or the caller overwrites. ``{ext}`` stands at the end only.

        Args:
            text: components parted by ``/``, with fields in braces.

        Raises:
            ConfigurationError: it cannot be meant, or does not lead below its folder.
        """
        if not isinstance(text, str):
            raise ConfigurationError("a name template is a str")
        pieces = tuple(_pieces(text))
        has_extension = pieces[-1:] == (NameField.EXT,)
        if has_extension:
            pieces = _without_dot(pieces[:-1])
        components = tuple(_components(pieces))
        _check(components)
        return cls(text=text, components=components, has_extension=has_extension)

    def of(self, facts: FileFacts) -> FileName:
        """Return the name of a file.

        Raises:
            ConfigurationError: a field of the template is not known of this document.
        """
        *folders, stem = (_filled(component, facts) for component in self.components)
        return FileName(tuple(folders), stem, self.has_extension)


def _pieces(text: str) -> Iterator[_Piece]:
    try:
        parsed = list(Formatter().parse(text))
    except ValueError:
        raise ConfigurationError("a name template has a brace without its partner") from None
    for literal, name, spec, conversion in parsed:
        if literal:
            yield literal
        if name is None:
            continue
        if spec or conversion or name not in _FIELDS:
            raise ConfigurationError(
                f"a name template has plain fields only, of {', '.join(_FIELDS)}",
            )
        yield _FIELDS[name]


def _without_dot(pieces: Sequence[_Piece]) -> tuple[_Piece, ...]:
    last = pieces[-1] if pieces else None
    if not isinstance(last, str) or not last.endswith("."):
        raise ConfigurationError("in a name template, {ext} stands behind a dot")
    return (*pieces[:-1], last[:-1])


def _components(pieces: Sequence[_Piece]) -> Iterator[_Component]:
    component: list[_Piece] = []
    for piece in pieces:
        if isinstance(piece, NameField):
            component.append(piece)
            continue
        first, *others = piece.split("/")
        component.append(first)
        for other in others:
            yield tuple(one for one in component if one)
            component = [other]
    yield tuple(one for one in component if one)


def _check(components: tuple[_Component, ...]) -> None:
    fields = {piece for component in components for piece in component}
    if fields.isdisjoint({NameField.DOCUMENT_ID, NameField.FILE_REFERENCE_ID}):
        raise ConfigurationError("a name template contains {document_id} or {file_reference_id}")
    if NameField.EXT in fields:
        raise ConfigurationError("in a name template, {ext} stands at the end, and once")
    if len(components) > _MOST_COMPONENTS:
        raise ConfigurationError(f"a name template has at most {_MOST_COMPONENTS} components")
    for component in components:
        # A field stands for a text that is safe anywhere.
        sample = "".join(piece if isinstance(piece, str) else "x" for piece in component)
        if not is_safe_text(sample) or not is_safe_at_ends(sample) or ".." in sample:
            raise ConfigurationError(
                "a component of a name template is empty, or its own text is not safe: no '..', "
                'no dot, dash, tilde or space in front, no dot or space behind, none of \\:*?"<>|',
            )
        if sum(map(_longest, component)) + 1 + _LONGEST_EXTENSION > _LONGEST_NAME:
            raise ConfigurationError("a component of a name template can become too long")


def _longest(piece: _Piece) -> int:
    if isinstance(piece, str):
        return len(piece.encode())
    return _LONGEST_NUMBER if piece is NameField.FILE else LONGEST


def _filled(component: _Component, facts: FileFacts) -> str:
    texts = (piece if isinstance(piece, str) else _value(piece, facts) for piece in component)
    return without_reserved("".join(texts))


def _value(field: NameField, facts: FileFacts) -> str:
    value: str | None
    match field:
        case NameField.APPLICATION_ID:
            value = facts.application_id
        case NameField.DOCUMENT_TYPE:
            value = facts.document_type
        case NameField.DOCUMENT_ID:
            value = facts.document_id
        case NameField.FILE:
            return str(facts.file)
        case NameField.FILE_REFERENCE_ID:
            value = facts.file_reference_id
        case NameField.EXT:
            raise AssertionError("the extension is no fact")
        case _:
            assert_never(field)
    if value is None:
        raise ConfigurationError(
            f"the name template has {{{field.value}}}, which is not known of this document: "
            "pass it along, or use a template without it",
        )
    return safe_component(value)
