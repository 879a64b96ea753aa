"""What each sub-command says of itself, in the order of the help; runs none of them."""

from typing import Final

ABOUT: Final = """Read an income-verification service; try it on an emulated one.

The exit status is the same for every command, unless its help says more:

  0    all that was asked for
  1    something failed, is missing or is not there
  2    arguments or settings that cannot be meant
  4    the service refused the credentials
  130  Ctrl-C
  141  nobody reads the output any more
  143  SIGTERM, before all was done

Example: income-client demo
"""
COMMANDS: Final = {
    "demo": """Read a whole emulated service of invented data, and say what was found.

Progress goes to standard error, the summary to standard output. The exit
status is 1 if the summary does not agree with what the service holds.

Example: income-client demo --applications 20000
""",
    "doctor": """Look at everything between here and the service, and say what is so.

A line for each thing that was looked at: the configuration and where each part
of it comes from, DNS, TLS, the clock, the credentials, how quick the service
is, and what the contract leaves open about its list: whether the bounds are
inclusive, the order of rows, what becomes of wide windows. It makes at most 40
requests, one after the other, and changes nothing.

No secret, no borrower's data and no id is shown, but that of a failed request,
by which the service's owner finds it: the output can be pasted into a ticket.
The exit status is 0 if nothing failed, 2 if the settings cannot be meant, 4 if
the credentials were refused, else 1.

Example: income-client doctor --output json
""",
    "applications": """List the applications that were updated in a span, each once.

Times are ISO 8601, the service's own if they have no zone, or go back from its
present: 90min, 12h, 7d, 2w, now, beginning. Rows come as they are found, in no
order. The output is a table on a terminal and JSON lines elsewhere, unless
--output says table, jsonl, csv or json; -q gives ids alone, for other commands.
The list has no time of update; application shows it. Where a second holds more
applications than the service can list, that is said, and the exit status is 1.

Example: income-client applications --updated-after 7d
""",
    "find": """Find the application with a reference of your own.

The exit status is 1 if there is none.

Example: income-client find LOAN-2026-000123 --output jsonl
""",
    "application": """Show an application: its income by year, and what supports each amount.

Bars show the income of each year and source, on one scale for all applicants.
The documents behind an amount stand beside it, and all of them with their pay
periods on a time line. What rests on a document that is suspected fraudulent is
red, and said so. Who the borrowers are is hidden unless --show-personal-data is
given.

With --html the same goes to a page that needs no other file, has no script and
asks for nothing; only you can read it (mode 0600). JSON is the service's own,
with all that names the borrowers; it leaves the addresses of files out unless
--addresses is given.

Example: income-client application app-000001 --html app-000001.html
""",
    "documents": """List documents of applications, with the data read from them.

JSON holds all of it, a document a line, with its application and its type, and
so it names the borrowers. The addresses of files are left out unless
--addresses is given: who has one can read the file. The output is a table on a
terminal and JSON lines elsewhere. Ids come from standard input where - stands
for them. The exit status is 1 if the documents of an application could not be
read, while the others are listed, or if no document has a type that was asked
for (paystub may be missing); 4 if the credentials are refused.

Example: income-client documents app-000001 --type paystub
""",
    "download": """Put the files of applications' documents into a folder.

Whose, is told by ids, by - for those on standard input (one a line, or JSON as
applications and poll write it), or by a span of which everything that was
updated is meant. Times are ISO 8601, or go back from now: 12h, 7d, beginning.

The path of each file goes to standard output once it is whole. The folder's
manifest.jsonl then gets a line of JSON about it, with its size and SHA-256;
neither has an address or a name of anybody. Run it again, and it goes on where
it was: a file that is listed and still as it was is not asked for, and what
came of the others is not asked for twice. Bars go to standard error if that is
a terminal and no pipe takes the paths, and a summary at the end.

What fails is said, and keeps nothing else from coming. Ctrl-C and SIGTERM stop
it, with the parts that came kept for the next run; a second one ends it at
once. Parts are hidden files beside the places of the whole ones. The exit
status is 0 if all is there, 1 if something failed or no document has a type
that was asked for (paystub may be missing), 4 if the credentials are refused,
130 after Ctrl-C, 143 after SIGTERM, and 141 when nobody reads the output any
more. Address and credentials come from the environment or a file, as for poll.

Example: income-client download app-000001 app-000002 --to files --type paystub
income-client applications -q | income-client download - --to files
""",
    "export": """Write every application that changed in a span to one file.

Lines of JSON hold all that the service says; with --format parquet a folder of
five tables to be joined (see the README): applications, applicants,
income_sources, documents and paystub_amounts. A manifest beside the lines, or
among the tables, tells the span and what is missing.

The file is whole at its place, or not there. What has come is kept in a folder
beside it, PATH.part: run the same command again, after whatever ended it, and
it goes on. The span ends at the service's present when the first run began, and
stays; what is updated after that belongs to the next export, and the summary
says where that begins. What could not be read is said and tried again by the
next run; the file is not made without it unless you say --allow-missing.

The path goes to standard output, all else to standard error. The exit status is
0 if the file is there, 1 if something failed or is missing, 4 if the
credentials are refused, 130 after Ctrl-C and 143 after SIGTERM. Address and
credentials come from the environment or a file, as for poll. The file holds
borrowers' data, so that only you may read it, and no addresses of files unless
--addresses is given.

Example: income-client export --to june.jsonl --updated-after 2026-06-01
""",
    "poll": """Write every update of every application to standard output, as lines of JSON.

A line is the service's own JSON, without the addresses of files unless
--addresses is given. On a terminal it is time, id and reference, unless
--show-personal-data is given. It is written before the file notes that it was,
so that nothing is lost in a crash; at worst the last lines come again. Run it
again with the same file, and it goes on where it was. What could not be read is
kept in the file, and tried again later.

Ctrl-C and SIGTERM stop it once the lines at hand are written and noted; a
second one ends it at once. The exit status is 0 after SIGTERM, or 143 if that
cut --once short; 130 after Ctrl-C, 141 when nobody reads the output any more,
1 after a failure, 2 where settings cannot be meant, and 4 where the credentials
are refused. What fails for a while is tried again for ever, so a service
manager need only start it (systemd: Restart=on-failure; the README has a unit),
and cron runs it with --once. One name has one process: the newer goes on, and
the older ends with 1.

Address and credentials come from the environment, INCOME_BASE_URL, and
INCOME_CLIENT_ID and INCOME_CLIENT_SECRET or INCOME_USERNAME and
INCOME_PASSWORD; or from the file of --config. So do INCOME_PROXY and
INCOME_CA_FILE, of an HTTP proxy and of a private authority. On a terminal a
line tells how far it has come, in service time.

Example: income-client poll --store polls.db --start 7d >> all.jsonl
""",
    "dead-letters": """List what a poller could not read so far, and tries again later.

Ids, or seconds of the list that hold more than the service can list; the
reason, and times of the service. It looks into the file that poll --store
keeps, whether the poller runs or not, and changes nothing. The output is a
table on a terminal and JSON lines elsewhere; -q gives ids of applications
alone. The exit status is 0 whether there are any or not, and 1 if there is no
such file or name.

Example: income-client dead-letters --store polls.db
""",
    "token": """Buy an access token, and tell how long it serves and what it says.

Its claims are shown where it is a JWT, without verifying it and without those
that may be about a person. The token itself is only shown by --reveal, which
prints nothing else. The exit status is 1 where the credentials need no token,
and 4 if it, or they, were refused.

Example: income-client token
""",
    "listen": """Take callbacks at an address of your own, and print each as a line of JSON.

A line tells when the callback came, its event and its application, and whether
the same bytes came shortly before; on a terminal it is not JSON. It is written
before the callback is answered with 200, and with --forward-to only once it has
been handed on. What cannot be handed on or written is answered with 503, upon
which the service is assumed to send it again. What else is not taken is told on
standard error, by reason.

The credentials that callbacks must carry come from the environment:
INCOME_CALLBACK_USERNAME and INCOME_CALLBACK_PASSWORD, or, for tokens that are
sold at --token-path, INCOME_CALLBACK_CLIENT_ID and
INCOME_CALLBACK_CLIENT_SECRET; or both. Where none are set and only this
machine can ring, some are made up and told. The exit status is 0 after
SIGTERM, 130 after Ctrl-C, and 141 when nobody reads the output any more.

Example: income-client listen --forward-to http://127.0.0.1:8000/hook
""",
    "trigger": """Have a running emulator fire callbacks, and say what became of each.

A line tells the application, the event and what each attempt came to: the
status of the answer, or why there was none:

  refused      nobody listens at that port
  unreachable  no way leads there, or its name has no address
  tls          certificates do not fit, on one side or the other
  timeout      no answer in ten seconds
  dropped      the connection was closed before the answer
  reset        the connection was torn down
  cut_short    the answer ended in the middle
  unreadable   what came is no HTTP
  failed       something else went wrong
  closed       the emulator has ended

With token_ before it the same is about the token that the callback needed:
token_401 is the answer to its client id and secret. After 429, 500, 502, 503
and 504 it is sent again up to five times, as is assumed of the service.

The emulator is one that was started with --callbacks; its address and
credentials come from the environment, as emulate prints them. The exit status
is 0 if all callbacks were answered with 200, 4 if the emulator refused the
credentials, else 1.

Example: income-client trigger --event extractions --count 3
""",
    "emulate": """Run the emulated service on loopback until Ctrl-C or SIGTERM.

Prints the environment variables that lead a client to it, as lines for a
shell. All data is invented, the credentials too; its updates lie in the 90
days before --start. Service time passes, and so its present is yours unless
you choose another. The exit status is 0 after SIGTERM and 130 after Ctrl-C.

With --callbacks it sends callbacks, of --updates and of trigger, up to five
times more where they are not taken, which is assumed of the service; the
contract does not say. Their credentials come from the environment:
INCOME_CALLBACK_USERNAME and INCOME_CALLBACK_PASSWORD, or
INCOME_CALLBACK_CLIENT_ID and INCOME_CALLBACK_CLIENT_SECRET for tokens.

With --faults things go wrong on a share of the requests, told at the end. A
fault is a status from 400 on, or reset, drop, cut, stall, trickle or garbage;
its share is a number up to 1 or a percentage, of all requests or of those that
are named behind an @: list, application, documents, file, token. The same
--seed has the same faults.

Example: income-client emulate --port 8080 --faults 503:0.05,cut:10%@file
""",
    "completion": """Print the script that completes the command in a shell.

Where such scripts go: for bash the file income-client in the folder
~/.local/share/bash-completion/completions, for zsh the file _income-client in a
folder of $fpath, for fish ~/.config/fish/completions/income-client.fish.

Example: income-client completion bash
""",
}
"""Their names, and the help of each: what it does, its exit statuses, an example."""
