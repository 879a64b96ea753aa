"""Invalid input is explained at once: status 2, or 1 where only this machine is to blame."""

import shlex
from collections.abc import Iterator
from typing import Final, get_args

import pytest
from cyclopts import CycloptsError

from income_client.cli.app import command_line
from income_client.cli.options import Moment
from income_client.testing import IncomeService
from tests.cli.commands import NAMES, OAUTH2_VARIABLES
from tests.support.cli import Cli

TO_NOBODY: Final = "--callbacks http://127.0.0.1:9/"
NOWHERE: Final = "--base-url http://127.0.0.1:1"
USERNAME: Final = "INCOME_CALLBACK_USERNAME"
PASSWORD: Final = "INCOME_CALLBACK_PASSWORD"
SECRET: Final = "INCOME_CALLBACK_CLIENT_SECRET"
CONTROL: Final = "INCOME_EMULATOR_TOKEN"
KEY: Final = "INCOME_CLIENT_SECRET"

INVALID: Final = [
    ("nonsense", "nonsense"),
    ("find LOAN-1", "write income-client applications --reference REFERENCE"),
    ("token", "The command token was removed: income-client guide command-line"),
    ("application", "parameter APPLICATION_ID is missing"),
    ("application ''", "application_id"),
    ("applications --updated-after yesterday", "7d, 12h, now or beginning"),
    *((f"applications {line}", f"Did you mean {meant}?") for line, meant in (
        ("--json", "--output json"), ("--csv", "--output csv"), ("-n3", "--limit"),
        ("--since=7d", "--updated-after"), ("--until now", "--updated-before"),
        ("-v", "--verbose"), ("--updated-afer 7d", "--updated-after"))),
    *((f"applications --reference {line}", said) for line, said in (
        ("''", "--reference must"), ("'a\x1bb'", "--reference holds"),
        ("LOAN-1 --limit 1", "--reference cannot be combined"),
        ("LOAN-1 --updated-after 7d", "--reference cannot be combined"))),
    ("-v", "Did you mean --verbose?"),
    ("--profile raw applications", "--profile. Options come behind the command."),
    ("application -- app-1 --output json", "--output is behind --"),
    ("documents -- app-1 --output json", "options come before it"),
    ("documents app-1 --no-pages", "Unknown option: --no-pages"),
    ("export --to x --json", "Did you mean --format jsonl?"),
    *((f"get {line}", said) for line, said in (
        ("https://evil.example/x", "PATH must begin with a single slash"),
        ("/v1/%2e%2e/x", "PATH must not hold a step such as .."),
        ("/v1/x --param =hidden", "--param must be NAME=VALUE"),
        ("/v1/x --param a=\x07", "--param holds a control character"))),
    ("guide poling", 'Did you mean "polling"?'),
    ("poll --store polls.db --since 7d", "Did you mean --start?"),
    ("completion csh", "zsh"),
    ("configure", "--base-url"),
    (f"configure {NOWHERE}", "--client-id or --username"),
    (f"configure {NOWHERE} --client-id one", "secret"),
    ("configure --base-url http://one.example --client-id one", "--base-url"),
    (f"configure {NOWHERE} --auth-url ftp://x --client-id one", "--auth-url"),
    ("configure --client-id one --username two", "--username"),
    ("configure --client-secret hidden", "--client-secret"),
    *((f"configure {NOWHERE} --client-id one --profile '{name}'", "--profile") for name in
      ("", "a\nb", "\udcff")),
    ("dead-letters --store :memory:", "income-client: --store: "),
    ("demo --applications many", "many"),
    ("demo surplus", "Unexpected argument: surplus."),
    ("documents", "APPLICATION_ID"),
    ("documents app-1 --typo", "--typo"),
    ("download --to x", "APPLICATION_ID"),
    ("download --to x app-1 --updated-after 1d", "--updated-after"),
    ("download --to x - --updated-before now", "--updated-after"),
    ("download --to x app-1 --allow-host https://files.example/x", "--allow-host: the entry"),
    ("download --to x app-1 --allow-host '*'", "--allow-host"),
    ("download --to x app-1 --names ../{document_id}", "--names"),
    ("download --to x app-1 --names {id}.pdf", "has no field {id}; there are application_id"),
    ("download --to x app-1 --names x", "{document_id} or {file_reference_id}"),
    ("download --to x --updated-after 7d --names fixed.{ext}", "--names"),
    ("download --to s3://bucket/x app-1", "--to"),
    ("emulate --port 70000", "70000"),
    ("emulate --order sorted", "ascending"),
    ("emulate --bounds open", "neither"),
    ("emulate --max-span 0", "--max-span"),
    ("emulate --faults=ok", "--faults: it names no fault"),
    ("emulate --faults 'any: 500 rate=2'", "--faults: rate must be a share from 0 to 1"),
    ("emulate --faults 'files: 500'", "no call files; did you mean file?"),
    ("emulate --faults 500:0.05,cut:10%@file", "write '500 rate=5%' or 'file: 500 rate=5%'"),
    ("emulate --callbacks http://example.com/", "--callbacks"),
    ("emulate --callbacks http://u:hidden@127.0.0.1/", "--callbacks"),
    ("export", "--to is missing"),
    ("export --to", "parameter --to requires an argument"),
    ("export --to x --output=parquet", "--format"),
    ("export --to x --pages --no-documents", "--pages"),
    ("export --to x app-1 --updated-after 1d", "either APPLICATION_IDs, or --updated-after"),
    ("export --to x --format csv", "csv"),
    ("export --to x.parquet", "--format parquet"),
    ("export --to x.CSV", "--format parquet"),
    ("listen --path hooks", "--path"),
    ("listen --path /{all}", "--path"),
    ("listen --token-path /callbacks", "--token-path"),
    ("listen", f"set {USERNAME} and {PASSWORD}, or"),
    ("poll", "--store"),
    ("status", "one of --store and INCOME_STORE_URL must be given"),
    ("status --store mysql://db/lending", "postgresql:// or nats://"),
    ("status --store polls.db --max-dead-letters -1", "--max-dead-letters"),
    *((f"{command} --store {url}", "set an address with a password as INCOME_STORE_URL")
        for command in ("dead-letters", "poll", "status") for url in (
            "postgresql://me:hidden@db/lending", "postgresql://db/lending?password=hidden",
            "nats://hidden@127.0.0.1/income")),
    ("status --store nats://127.0.0.1:4222", "a bucket must follow the server"),
    ("status --store nats://127.0.0.1/a.b", "a bucket must follow the server"),
    ("poll --store polls.db --creds me.creds", "--creds is for a store in NATS"),
    ("dead-letters --store polls.db --forget a --retry-all", "--forget cannot be combined"),
    ("poll --store polls.db --interval 0", "--interval"),
    ("poll --store :memory:", "--store: "),
    ("poll --store polls.db --name ''", "--name: "),
    ("poll --store polls.db --pages --no-documents", "--no-documents"),
    ("poll --store polls.db --must-exist --start 7d", "--must-exist cannot be combined with"),
    ("schema oracle", "postgres"),
]  # fmt: skip
"""Command lines that are wrong on any machine, and what is named."""

INVALID_VARIABLES: Final[list[tuple[str, dict[str, str], str]]] = [
    (f"emulate {TO_NOBODY}", {PASSWORD: "hidden"}, USERNAME),
    ("emulate --host emulator", {}, "host must be an IP address"),
    ("emulate --allow-host emulator:80", {}, "allow_hosts are host names or IP addresses"),
    ("emulate", {CONTROL: "short"}, "INCOME_EMULATOR_TOKEN must be 8 or more"),
    ("application app-1", {"INCOME_BASE_URL": ""}, "INCOME_BASE_URL"),
    ("applications", {KEY: ""}, KEY),
    ("documents app-1", {"INCOME_BASE_URL": "ftp://income.example"}, "INCOME_BASE_URL"),
    ("get /v1/x", {"INCOME_PROXY": "hidden"}, "INCOME_PROXY"),
    ("download --to x app-1", {"INCOME_CA_FILE": "/none"}, "INCOME_CA_FILE: cannot read /none"),
    ("export --to all", {"INCOME_CA_FILE": "/"}, "INCOME_CA_FILE: / is not a regular file"),
    ("poll --store polls.db --once", {"INCOME_CA_FILE": __file__}, "holds no certificate"),
    ("trigger", {"INCOME_BASE_URL": ""}, "INCOME_BASE_URL is not set"),
    (
        "trigger",
        {"INCOME_BASE_URL": "127.0.0.1:9"},
        "INCOME_EMULATOR_TOKEN: url must be",
    ),
    ("trigger", {CONTROL: "short"}, "INCOME_EMULATOR_TOKEN: token must be 8 or more"),
    *(
        (line, {"SSLKEYLOGFILE": "/nowhere/keys"}, "SSLKEYLOGFILE: cannot write /nowhere/keys")
        for line in ("applications", "demo", "doctor", "listen")
    ),
    ("listen", {USERNAME: "partner"}, PASSWORD),
    ("listen", {PASSWORD: "hidden"}, USERNAME),
    ("listen", OAUTH2_VARIABLES | {SECRET: "hidden"}, "32 characters"),
]

UNUSABLE: Final = [
    ("poll --store nowhere/at/all", "--store: "),
    ("poll --store home", "--store: "),
]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """The command on a service that is never asked, in a folder where nothing is written."""
    with IncomeService(1) as service:
        yield Cli(tmp_path_factory.mktemp("misuse"), service)


def check(shell: Cli, line: str, named: str, status: int, **env: str) -> None:
    """Make sure that a command line is refused before anything is sent or written."""
    ran = shell(*shlex.split(line), env=env, stdin=None if named == "secret" else "hidden\n")
    assert (ran.status, ran.stdout) == (status, "")
    assert named in " ".join(ran.words.replace("│", " ").split())
    assert "hidden" not in ran.words
    assert ran.stderr.replace("\n", "").isprintable()
    # One line, or the box that Cyclopts draws.
    assert ran.stderr.count("\n") == 1 or "─╮" in ran.stderr
    assert len(shell.service.requests) == 0
    assert {path.name for path in shell.folder.iterdir()} == {"home"}


@pytest.mark.parametrize(("line", "named"), INVALID)
def test_invalid_arguments_are_status_2(line: str, named: str, shell: Cli) -> None:
    check(shell, line, named, 2)


@pytest.mark.parametrize(("line", "env", "named"), INVALID_VARIABLES)
def test_invalid_variables_are_status_2(
    line: str, env: dict[str, str], named: str, shell: Cli
) -> None:
    check(shell, line, named, 2, **env)


@pytest.mark.parametrize(("line", "named"), UNUSABLE)
def test_files_that_cannot_be_used_are_status_1(line: str, named: str, shell: Cli) -> None:
    check(shell, line, named, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ("applications", "--output", "\x1b[31m"),
        ("x\x1b[31m",),
        ("demo", "x\x1b[31m"),
        ("demo", "--x\x1b[31m"),
        ("documents", "app-1", "--output", "\x07\u202e"),
    ],
)
def test_what_was_typed_cannot_act_on_a_terminal(arguments: tuple[str, ...], cli: Cli) -> None:
    ran = cli(*arguments)
    assert (ran.status, ran.stdout) == (2, "")
    assert "?" in ran.stderr
    assert ran.stderr.replace("\n", "").isprintable()


# Options of one kind, found among all, so that a new one is held to its rule


def refusal(*line: str) -> str:
    """Return what the parser says of a command line."""
    with pytest.raises(CycloptsError) as caught:
        command_line(line[0]).parse_args(line, print_error=False)
    return str(caught.value)


def said_of_each(kind: type, text: str) -> dict[str, str]:
    """Return what is said of a value that is refused, for each option that takes this kind."""
    said = {}
    for command in NAMES:
        arguments = (*command_line()[command].assemble_argument_collection(),)
        for argument in arguments:
            if kind not in {argument.hint, *get_args(argument.hint)}:
                continue
            needed = [one for one in arguments if one.required and one is not argument]
            line = [command, argument.name, text]
            for one in needed:
                line += [one.name] if one.name.startswith("-") else []
                line += ["1" if one.hint is int else "x"]
            said[f"{command} {argument.name}"] = refusal(*line)
    return said


def test_a_count_is_a_whole_number() -> None:
    said = said_of_each(int, "1.5")
    # Among them those of commands that are loaded late, and of groups of options.
    assert {"applications --limit", "download --concurrency", "emulate --max-span"} < {*said}
    for option, text in said.items():
        assert f"Invalid value for {option.split()[1]}: " in text
        assert "whole number" in text or option.endswith("--file-size")
    for text in ("1e3", "many"):
        assert "whole number" in refusal("applications", "--limit", text)


def test_a_size_is_a_number_with_a_unit() -> None:
    for text in ("", "k", "0", "-1", "1e3", "1,000", "5TB", "3GiB", "1kB2", "\u0663", "9" * 99):
        assert "--file-size" in refusal("emulate", f"--file-size={text}")


def test_a_span_is_not_in_minutes_or_months() -> None:
    said = said_of_each(Moment, "1m")
    assert {"applications --updated-before", "emulate --oldest", "poll --start"} < {*said}
    for option, text in said.items():
        assert f"Invalid value for {option.split()[1]}: " in text
        assert "write 1min for minutes" in text
