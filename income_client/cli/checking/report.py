"""All findings of a check-up from its facts, in order; what builds on a failure is skipped."""

from collections.abc import Sequence
from typing import Final

from income_client.cli.exit_status import ExitStatus

from . import list_rules as lists
from . import rules
from .facts import Configuration, Facts, Finding, Trouble, Verdict
from .rules import CONFIGURATION, CONNECTION, CREDENTIALS, Rule

_REFUSALS: Final = frozenset({"AuthenticationError", "PermissionDeniedError"})
_STOPPING: Final = frozenset({Verdict.FAILED, Verdict.SKIPPED})

_FIRST: Final = (
    Rule(check=CONFIGURATION, judge=rules.configuration),
    Rule(check="proxy", judge=rules.proxies),
)
_NO_HOSTS: Final = (Rule(check=CONNECTION, judge=rules.configuration, needs=(CONFIGURATION,)),)
_BEYOND_PROXY: Final = Rule(check=CONNECTION, judge=rules.beyond_proxy, needs=(CONFIGURATION,))
_SERVER: Final = (
    Rule(check="keep-alive", judge=rules.keeping, needs=(CONNECTION,)),
    Rule(check=rules.CLOCK, judge=rules.clock, needs=(CONNECTION,)),
)
_LIST: Final = (
    ("applications", lists.applications),
    ("bounds", lists.bounds),
    ("row order", lists.order),
    ("limit", lists.limit),
    ("default window", lists.default_window),
    ("wide windows", lists.wide_windows),
    ("future bounds", lists.future_bounds),
    ("service time", lists.service_time),
)


def findings_of(facts: Facts) -> tuple[Finding, ...]:
    """Return what the facts mean, line by line."""
    found: dict[str, Finding] = {}
    for rule in _rules(facts):
        needed = (found[each] for each in rule.needs)
        stopping = next((each for each in needed if each.verdict in _STOPPING), None)
        found[rule.check] = _judged(rule, facts) if stopping is None else _skipped(rule, stopping)
    return tuple(found.values())


def _judged(rule: Rule, facts: Facts) -> Finding:
    said = rule.judge(facts)
    return Finding(check=rule.check, verdict=said.verdict, finding=said.finding, advice=said.advice)


def _skipped(rule: Rule, stopping: Finding) -> Finding:
    cause = stopping.cause or stopping.check
    return Finding(check=rule.check, verdict=Verdict.SKIPPED, finding=f"needs {cause}", cause=cause)


def status_of(facts: Facts, findings: Sequence[Finding]) -> ExitStatus:
    """Return the exit status, of settings, of refused credentials or of any other failure."""
    if isinstance(facts.configuration, Trouble):
        return ExitStatus.MISUSED
    if isinstance(facts.accepted, Trouble) and facts.accepted.kind in _REFUSALS:
        return ExitStatus.REFUSED
    has_failed = any(each.verdict is Verdict.FAILED for each in findings)
    return ExitStatus.FAILED if has_failed else ExitStatus.DONE


def _rules(facts: Facts) -> tuple[Rule, ...]:
    hosts = [rule for host in facts.hosts for rule in rules.host_rules(host)]
    is_reached = isinstance(facts.configuration, Configuration) and facts.configuration.proxy
    if is_reached:
        return (*_FIRST, _BEYOND_PROXY, *_calls(CONFIGURATION))
    ways = tuple(rule.check for rule in hosts if rule.check.startswith(CONNECTION))
    return (*_FIRST, *(hosts or _NO_HOSTS), *_SERVER, *_calls(*(ways or (CONNECTION,))))


def _calls(*ways: str) -> tuple[Rule, ...]:
    """Return the rules about what the service answers, which need some way there."""
    return (
        Rule(check=CREDENTIALS, judge=rules.credentials, needs=ways),
        Rule(check="latency", judge=rules.latency, needs=(CREDENTIALS,)),
        Rule(check="rate limits", judge=rules.throttling, needs=ways),
        *(Rule(check=check, judge=judge, needs=(CREDENTIALS,)) for check, judge in _LIST),
    )
