"""Names of files in a folder or a store: the extension, and a safe path.

Names from the service are data: each becomes one safe component, or a part of one, wherever it
is in a template. The table of media types is the package's own, since that of the machine
differs from one to the next.
"""

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from string import Formatter
from typing import Final, Self, TypeAlias

from attrs import fields, frozen

from income_client.errors import ConfigurationError, InvalidArgumentError

_EXTENSION: Final = ".{ext}"
_Piece: TypeAlias = tuple[str, str | None, str | None, str | None]
"""Text, and name, format and conversion of the field behind it, as of `string.Formatter`."""
_MOST_COMPONENTS: Final = 8
_LONGEST_NAME: Final = 255
_LONGEST_NUMBER: Final = 6
_LONGEST_EXTENSION: Final = 5
LONGEST: Final = 120
"""Bytes of UTF-8 that a safe component has at most."""

# Control, format (bidirectional ones too), surrogates, private, unassigned, line separators.
_GONE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_REPLACED: Final = dict.fromkeys(map(ord, '/\\:*?"<>|'), "_")
_NOT_FIRST: Final = ".-~ "
_NOT_LAST: Final = ". "
_MARK: Final = re.compile(r"~[0-9a-f]{8}\Z", re.IGNORECASE)
_RESERVED: Final = frozenset(
    {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"}
    | {f"{port}{digit}" for port in ("COM", "LPT") for digit in "0123456789¹²³"},
)

_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "pdf": ("application/pdf", "application/x-pdf"),
    "png": ("image/png",),
    "jpg": ("image/jpeg", "image/jpg", "image/pjpeg"),
    "tif": ("image/tiff", "image/tif"),
    "gif": ("image/gif",),
    "bmp": ("image/bmp", "image/x-ms-bmp"),
    "webp": ("image/webp",),
    "heic": ("image/heic", "image/heif"),
    "txt": ("text/plain",),
    "csv": ("text/csv", "application/csv"),
    "json": ("application/json",),
    "xml": ("application/xml", "text/xml"),
    "html": ("text/html", "application/xhtml+xml"),
    "rtf": ("application/rtf", "text/rtf"),
    "eml": ("message/rfc822",),
    "zip": ("application/zip", "application/x-zip-compressed"),
    "doc": ("application/msword",),
    "docx": ("application/vnd.openxmlformats-officedocument.wordprocessingml.document",),
    "xls": ("application/vnd.ms-excel",),
    "xlsx": ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",),
}
"""Extensions, and the media types that have each."""
_UNKNOWN: Final = "bin"
_BY_MEDIA_TYPE: Final = {name: extension for extension, names in _KNOWN.items() for name in names}

EXTENSIONS: Final = (*_KNOWN, _UNKNOWN)
"""Every extension that a file can get, the likeliest first."""

_SIGNATURES: Final = (
    ("pdf", b"%PDF-"),
    ("png", b"\x89PNG\r\n\x1a\n"),
    ("jpg", b"\xff\xd8\xff"),
    ("tif", rb"II\*\x00"),
    ("tif", rb"MM\x00\*"),
    ("gif", b"GIF87a"),
    ("gif", b"GIF89a"),
    ("webp", b"RIFF....WEBP"),
    ("heic", b"....ftyp(heic|heix|mif1)"),
    ("bmp", b"BM....\x00\x00\x00\x00"),
    ("zip", b"PK\x03\x04"),
    ("rtf", rb"{\\rtf"),
    ("xml", rb"<\?xml"),
)
"""Formats, and patterns of how their files begin."""

HEAD_BYTES: Final = 64
"""Bytes at a file's beginning that are enough to recognise its format."""


def extension_of(content_type: str | None, head: bytes) -> str:
    """Return the extension for a file: by its media type if that is known, else by its head."""
    media_type = (content_type or "").partition(";")[0].strip().lower()
    extension = _BY_MEDIA_TYPE.get(media_type)
    if extension is not None:
        return extension
    for extension, signature in _SIGNATURES:
        if re.match(signature, head, re.DOTALL):
            return extension
    return _UNKNOWN


@frozen
class FileFacts:
    """The facts of a document's file that are known before its download."""

    application_id: str | None
    """Id of the application, None where the document does not say."""
    document_type: str | None
    """Type of the document, such as ``paystub``."""
    document_id: str
    """Id of the document (contract section 2.3)."""
    file: int
    """Number of the file among the document's files, from 0."""
    file_reference_id: str | None
    """The lender's own name for the file, which need not be the only one of its kind."""


_FIELDS: Final = tuple(fact.name for fact in fields(FileFacts))


@frozen
class FileName:
    """Relative path of a file whose extension is not known yet."""

    folders: tuple[str, ...]
    """Names of the folders on the way, the outermost first."""
    stem: str
    """The name without its extension; the whole name if the template has no ``{ext}``."""
    has_extension: bool
    """Whether the last component ends with an extension."""

    def with_extension(self, extension: str) -> str:
        """Return the last component, for a file with this extension."""
        return f"{self.stem}.{extension}" if self.has_extension else self.stem

    def candidates(self) -> list[str]:
        """Return all that the last component can be, the likeliest first."""
        if not self.has_extension:
            return [self.stem]
        return [f"{self.stem}.{extension}" for extension in EXTENSIONS]


@frozen
class NameTemplate:
    """A parsed template of file names."""

    components: tuple[tuple[_Piece, ...], ...]
    """Text and fields of each path component, without a final ``{ext}``."""
    has_extension: bool
    """Whether the template ends with ``.{ext}``."""

    @classmethod
    def read(cls, text: object) -> Self:
        """Parse a template of file names; raise `ConfigurationError` if it is invalid."""
        if not isinstance(text, str):
            raise _template_error("a name template must be a str")
        stem = text.removesuffix(_EXTENSION)
        try:
            components = tuple(tuple(Formatter().parse(part)) for part in stem.split("/"))
        except ValueError:
            raise _template_error("a name template has a brace without its partner") from None
        _check_template(components)
        return cls(components, has_extension=stem != text)

    def of(self, facts: FileFacts) -> FileName:
        """Return the name of a file; raise if a field is not known of this document."""
        *folders, stem = (_fill_component(component, facts) for component in self.components)
        return FileName(tuple(folders), stem, self.has_extension)


def _check_template(components: tuple[tuple[_Piece, ...], ...]) -> None:
    pieces = [piece for component in components for piece in component]
    names = {name for _, name, _, _ in pieces if name is not None}
    if "ext" in names:
        raise _template_error("in a name template, {ext} must be at the end, behind a dot")
    there_are = f"there are {', '.join((*_FIELDS, 'ext'))}"
    if unknown := names - set(_FIELDS):
        field = f"{{{min(unknown)}}}"
        raise _template_error(f"a name template has no field {field}; {there_are}")
    if any(spec or change for _, _, spec, change in pieces):
        raise _template_error(f"a name template has plain fields only; {there_are}")
    if names.isdisjoint({"document_id", "file_reference_id"}):
        raise _template_error("a name template must contain {document_id} or {file_reference_id}")
    if len(components) > _MOST_COMPONENTS:
        raise _template_error(f"a name template has at most {_MOST_COMPONENTS} components")
    for component in components:
        # A field becomes a text that is safe anywhere.
        sample = "".join(text if name is None else f"{text}x" for text, name, _, _ in component)
        if not sample or _make_safe(sample) != sample or ".." in sample:
            raise _template_error(
                "a component of a name template is empty, or its own text is not safe: no '..', "
                'no dot, dash, tilde or space in front, no dot or space behind, none of \\:*?"<>|',
            )
        if sum(map(_most_bytes, component)) + 1 + _LONGEST_EXTENSION > _LONGEST_NAME:
            raise _template_error("a component of a name template can become too long")


def _template_error(message: str) -> ConfigurationError:
    return InvalidArgumentError(message, argument="names")


def _most_bytes(piece: _Piece) -> int:
    text, name, _, _ = piece
    field = {None: 0, "file": _LONGEST_NUMBER}.get(name, LONGEST)
    return len(text.encode()) + field


def _fill_component(component: tuple[_Piece, ...], facts: FileFacts) -> str:
    filled = ""
    for text, name, _, _ in component:
        filled += text
        if name is not None:
            value = getattr(facts, name)
            if value is None:
                raise _template_error(
                    f"the name template has {{{name}}}, which is not known of this document: "
                    "pass it along, or use a template without it",
                )
            filled += safe_component(str(value))
    return _without_reserved(filled)


def safe_component(text: str) -> str:
    """Return one component of a path for any text: at most `LONGEST` bytes, never empty."""
    # A text that was changed ends with a hash of the original, so that no two texts get the same
    # name. One that ends like this by itself counts as changed for the same reason.
    tidy = _without_reserved(_make_safe(text)) or "_"
    if tidy == text and tidy == _cut_to_bytes(tidy, LONGEST) and not _MARK.search(text):
        return text
    mark = f"~{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return (_cut_to_bytes(tidy, LONGEST - len(mark)).rstrip(_NOT_LAST) or "_") + mark


def _without_reserved(component: str) -> str:
    """Return a component that is not the name of a device on Windows."""
    # Such a name is reserved with any extension behind it, and with spaces before that.
    stem = component.partition(".")[0].rstrip(" ")
    return f"_{component}" if stem.upper() in _RESERVED else component


def _make_safe(text: str) -> str:
    return _replace_unsafe(text).lstrip(_NOT_FIRST).rstrip(_NOT_LAST)


def _replace_unsafe(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text.translate(_REPLACED)
    signs = (_replace_sign(sign) for sign in unicodedata.normalize("NFC", text))
    # What has gone may have kept two signs apart that are one.
    return unicodedata.normalize("NFC", "".join(signs))


def _replace_sign(sign: str) -> str:
    category = unicodedata.category(sign)
    if category in _GONE:
        return ""
    if ord(sign) in _REPLACED or (category == "Zs" and sign != " "):
        return "_"
    return sign


def _cut_to_bytes(text: str, size: int) -> str:
    return text.encode("utf-8")[:size].decode("utf-8", "ignore")
