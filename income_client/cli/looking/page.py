"""An application as one HTML file that needs nothing else; knows layout, and nothing of records.

It has no script, loads nothing and forbids both by its own policy.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from .amounts import amount_text
from .elements import Markup, element, joined, style_sheet
from .page_chart import FEW, chart, look_of
from .page_style import STYLE_SHEET
from .page_timeline import timeline
from .view import ApplicantView, Fact, RecordView, SourceView, Support, YearView
from .words import RESTS_ON_SUSPECTED, footnotes, hidden_note, suspicions, title_facts, unit_note

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def page(view: RecordView) -> bytes:
    """Return the page of an application, in UTF-8.

    Args:
        view: what may be seen of it.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"Application {view.application_id}"),
        style_sheet(STYLE_SHEET),
    )
    body = element("body", element("main", *_parts(view)))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n".encode()


def _parts(view: RecordView) -> Iterator[Markup]:
    yield _header(view)
    told = [element("li", each) for each in suspicions(view)]
    if told:
        title = element("p", "\u26a0 Suspected fraudulent", class_="alarm")
        yield element("div", title, element("ul", *told), class_="alert", role="note")
    highest = view.highest
    for person in view.applicants:
        yield element("section", *_applicant(person, highest))
    if len(view.applicants) > 1:
        yield element("section", element("h2", "All applicants together"), _together(view))
    yield element("section", element("h2", "Documents"), *timeline(view.documents))
    yield element("section", element("h2", "Data sources"), *_sources(view))


def _header(view: RecordView) -> Markup:
    note = hidden_note() if view.is_masked else "With personal data: keep it as you keep the file."
    return element(
        "header",
        element("p", "Income verification", class_="over"),
        element("h1", f"Application {view.application_id}"),
        element("p", *(element("span", each) for each in title_facts(view)), class_="meta"),
        element("p", note, class_="note"),
        element("dl", *_figures(view), class_="figures"),
        element("p", unit_note(), class_="quiet small unit"),
    )


def _figures(view: RecordView) -> Iterator[Markup]:
    if view.together:
        latest = view.together[0]
        yield _figure(f"Income {latest.text}", *_total(latest))
    yield _figure("Applicants", len(view.applicants))
    yield _figure("Documents", len(view.documents))
    count = len(view.suspected) + len(view.suspected_elsewhere)
    figure = element("span", f"\u26a0 {count}", class_="alarm") if count else "none"
    yield _figure("Suspected fraudulent", figure)


def _figure(name: str, *values: object) -> Markup:
    return element("div", element("dt", name), element("dd", *values))


def _total(year: YearView) -> tuple[object, object]:
    """Return a year's amount, and a doubt of it, where no document stands beside it."""
    if not year.is_suspected:
        return amount_text(year.total), ""
    amount = element("span", f"\u26a0 {amount_text(year.total)}", class_="alarm")
    return amount, element("div", RESTS_ON_SUSPECTED, class_="alarm small")


def _applicant(person: ApplicantView, highest: Decimal) -> Iterator[Markup]:
    yield element("h2", person.heading, element("span", person.name, class_="name"))
    if person.facts:
        yield _facts(person.facts)
    if not person.years:
        yield element("p", "No income was calculated.", class_="none")
        return
    few = len(person.years) <= FEW
    yield element(
        "div",
        element("div", *chart(person.years, highest)),
        element("div", _table(person)),
        class_="income few" if few else "income",
    )


def _table(person: ApplicantView) -> Markup:
    heads = ("Year", "Source", "Amount", "Supported by")
    classes = (None, None, "amount", None)
    row = (element("th", head, class_=one) for head, one in zip(heads, classes, strict=True))
    return element(
        "table",
        element("thead", element("tr", *row)),
        *(element("tbody", *_year(year)) for year in person.years),
    )


def _facts(facts: tuple[Fact, ...]) -> Markup:
    rows = (joined(element("dt", each.name), element("dd", each.value)) for each in facts)
    return element("dl", *rows, class_="facts")


def _year(year: YearView) -> Iterator[Markup]:
    for place, source in enumerate(year.sources):
        yield element(
            "tr",
            element("td", "" if place else year.text, class_="year"),
            element("td", _swatch(source), source.name, class_="source"),
            element("td", amount_text(source.amount), class_="amount" + _alarm(source)),
            element("td", element("div", *_chips(source.support), class_="chips")),
        )
    if len(year.sources) != 1:
        yield element(
            "tr",
            element("td", "" if year.sources else year.text, class_="year"),
            element("td", "total", class_="total"),
            element("td", amount_text(year.total), class_="amount total"),
            element("td"),
        )


def _alarm(source: SourceView) -> str:
    return " alarm" if source.is_suspected else ""


def _swatch(source: SourceView) -> Markup:
    return element("span", class_=f"swatch {look_of(source)}")


def _chips(support: tuple[Support, ...]) -> Iterator[Markup]:
    if not support:
        yield element("span", "no document", class_="quiet small")
    for each in support:
        text = f"{each.mark} {each.label}".strip()
        target = f"#{each.mark}" if each.mark else None
        if each.is_suspected:
            yield element("a", f"\u26a0 {text}, suspected", class_="chip alarm", href=target)
        else:
            yield element("a", text, class_="chip", href=target)


def _together(view: RecordView) -> Markup:
    rows = (
        element(
            "tbody",
            element(
                "tr",
                element("td", year.text, class_="year"),
                element("td", amount, class_="amount total"),
                element("td", doubt, class_="below"),
            ),
        )
        for year in view.together
        for amount, doubt in [_total(year)]
    )
    return element("table", *rows, style="max-width: 32rem")


def _sources(view: RecordView) -> Iterator[Markup]:
    for each in footnotes(view):
        yield element("p", each, class_="quiet small")
    files = (
        element("li", file.name, element("span", f" {file.value}", class_="quiet"))
        for file in view.sources.files
    )
    if view.sources.files:
        yield element("ul", *files, class_="files")
