"""When an overfull second is believed to be complete."""

from datetime import timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from income_client.records.applications import ApplicationPage, ApplicationSummary
from income_client.records.window import EPOCH
from income_client.walk.windows import Answer, Bounds, FullSecond, Saturation

S = 100
LIMIT = 6
OUTER = Bounds(0, 1000)


def page(after: int, before: int, rows: set[str], *, is_full: bool = False) -> Answer:
    """Make an answer with rows of these ids."""
    made = [
        ApplicationSummary(application_id=key, application_reference_id=key, application_date=EPOCH)
        for key in rows
    ]
    listed = ApplicationPage(
        updated_after=EPOCH + timedelta(seconds=after),
        updated_before=EPOCH + timedelta(seconds=before),
        applications=tuple(made),
    )
    return Answer.of(listed, 0 if is_full else len(rows) + 1, None)


def overfull(rows: set[str], outer: Bounds = OUTER, asked: Bounds | None = None) -> FullSecond:
    """Begin with a full page."""
    asked = asked or Bounds(S - 1, S + 1)
    return FullSecond(S, outer, asked, page(S - 1, S + 1, rows, is_full=True), Saturation())


def settled(
    second: FullSecond, held: dict[int, set[str]], *, lower: bool, upper: bool
) -> FullSecond:
    """Answer every form as a service with this meaning of the bounds would."""
    while (form := second.next()) is not None:
        before = form.before or 0
        rows: set[str] = set()
        for at, ids in held.items():
            is_after = at >= form.after if lower else at > form.after
            is_before = at <= before if upper else at < before
            rows |= ids if is_after and is_before else set()
        shown = set(sorted(rows)[:LIMIT])
        second.receive(form, page(form.after, before, shown, is_full=len(rows) >= LIMIT))
    return second


@given(
    st.tuples(*[st.integers(0, LIMIT + 2)] * 3),
    st.booleans(),
    st.booleans(),
)
def test_a_second_is_covered_only_with_all_its_rows(
    sizes: tuple[int, int, int], lower: bool, upper: bool
) -> None:
    """Whatever the meaning, what is believed holds every row; less is believed."""
    held = {S + at - 1: {f"{at}-{n}" for n in range(size)} for at, size in enumerate(sizes)}
    seconds = [S - 1] * lower + [S] + [S + 1] * upper
    wide = set().union(*(held[at] for at in seconds))
    assume(len(wide) >= LIMIT)
    second = overfull(set(sorted(wide)[:LIMIT]))
    settled(second, held, lower=lower, upper=upper)
    if second.covered:
        assert held[S] <= set(second.rows)
    if all(size < LIMIT for size in sizes):
        assert second.covered


def test_a_form_that_was_not_echoed_exactly_proves_nothing() -> None:
    """A service that widens short windows is not believed."""
    second = overfull({"a"})
    while (form := second.next()) is not None:
        second.receive(form, page(form.after - 1, (form.before or 0) + 1, {"a"}))
    assert not second.covered


def test_forms_that_are_refused_prove_nothing() -> None:
    """A service that refuses empty windows leaves the second saturated."""
    second = overfull({"a"})
    while (form := second.next()) is not None:
        second.refuse(form)
    assert not second.covered


def test_no_form_leaves_the_outer_bounds() -> None:
    """At the edge of the walk no neighbour's second is asked for."""
    second = overfull({"a"}, outer=Bounds(S, S + 1), asked=Bounds(S, S + 1))
    asked = []
    while (form := second.next()) is not None:
        asked.append(form)
        second.receive(form, page(form.after, form.before or 0, {"a"}))
    assert asked == [Bounds(S, S)]
    assert second.covered
