"""Documents on the time line of a page; knows no more of them than is shown."""

from collections.abc import Iterator, Sequence
from typing import Final

from .days import TimeLine, spans_of
from .elements import Markup, element
from .view import DocumentView

_LAST_TICK: Final = 0.86
"""Behind it there is no room for what a tick says, on a narrow page."""


def timeline(documents: Sequence[DocumentView]) -> Iterator[Markup]:
    """Yield the axis, and each document with its days."""
    if not documents:
        yield element("p", "There are none.", class_="quiet")
        return
    line = TimeLine.of(documents)
    if line is not None:
        yield element(
            "p",
            "Filled: the pay period, with a stroke on the day of payment. "
            "Dashed: no pay period is known, and the years that it supports stand for it.",
            class_="quiet small",
        )
        ticks = (
            element("span", tick.text, style=f"left: {tick.at * 100:.3f}%")
            for tick in line.ticks
            if tick.at < _LAST_TICK
        )
        yield element("div", *ticks, class_="axis", aria_hidden="true")
    yield element("ol", *(_paper(each, line) for each in documents), class_="papers")


def _paper(document: DocumentView, line: TimeLine | None) -> Markup:
    name = [element("div", document.label, class_="total")]
    if document.is_suspected:
        name = [element("div", f"\u26a0 {document.label}", class_="alarm")]
        name.append(element("div", "suspected fraudulent", class_="alarm small"))
    name.append(element("div", document.document_id, class_="quiet small"))
    said = [*_days(document), *(_fact(fact.name, fact.value) for fact in document.facts)]
    shown = [] if line is None else [_track(document, line)]
    return element(
        "li",
        element("div", *name),
        element("div", *shown, element("div", *said, class_="said")),
        class_="paper",
        id=document.mark,
    )


def _fact(name: str, value: str) -> Markup:
    return element("span", element("span", f"{name} ", class_="quiet"), value)


def _days(document: DocumentView) -> Iterator[Markup]:
    if document.period is not None:
        period = document.period
        yield element("span", f"{period.first} \u2013 {period.last}", class_="total")
    elif document.years:
        yield _fact("supports", ", ".join(map(str, document.years)))
    else:
        yield _fact("supports", "no amount")
    if document.paid is not None:
        yield _fact("paid on", f"{document.paid}")


def _track(document: DocumentView, line: TimeLine) -> Markup:
    look = "span" if document.period is not None else "span hollow"
    if document.is_suspected:
        look = "span doubt"
    marks = []
    for span in spans_of(document):
        stretch = line.stretch(span)
        where = f"left: {stretch.start * 100:.3f}%; width: {stretch.length * 100:.3f}%"
        marks.append(element("div", class_=look, style=where))
    if document.paid is not None:
        where = f"left: min({line.place(document.paid) * 100:.3f}%, calc(100% - 2px))"
        marks.append(element("div", class_="payday", style=where))
    return element("div", *marks, class_="track", aria_hidden="true")
