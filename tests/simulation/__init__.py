"""A deterministic simulation of pollers, of the service and of their checkpoint store.

One process plays a small cluster for hours of virtual time, in about a second. Nothing in it waits:
time is a number, and the scheduler (`loops`) always runs what is due next. Two runs of one seed are
the same, event by event; their digest shows it.

What is real: the whole package from the poller down to the retries, the walk, the lease, the
checkpoint and the decoding of replies. It is used as an application uses it, and not patched.

What is simulated:

- `loops`: each process runs an event loop of its own on a machine, whose clocks may run fast, slow
  or from another date. A machine is killed between any two steps (no ``finally`` runs), paused, or
  loses its power.
- `service`: applications and their updates, the list with everything that the contract leaves open
  (the meaning of the bounds, order, lateness, replicas, windows that it cuts short, bounds in the
  future), a clock that goes back or stands still, and replies that fail, are lost, or come late.
- `zones`: the service's time zone, which may skip or repeat an hour during the run.
- `stores`: checkpoint stores that lose calls and replies, make a save after its sender has given
  up, fail over to a replica without the last saves, are restored from a backup, or emptied.
- `letters`: what cannot be read for a while, the dead letters about it, and the program of the
  guide that forgets some of them.
- `consumers`: programs that use the poller as the guide shows, and fail now and then; some poll
  once and are started again by cron, and some refuse a store that has lost its checkpoint.
- `callbacks`: updates for which somebody wakes the poller, itself or through the store.

What is not simulated: sockets, TLS, HTTP, files of documents, and the real stores
and brokers. Those have tests of their own.

A run: `plan` draws everything from the seed before the run begins, with all faults and their times.
`cluster` plays two or three epochs of faults, each followed by a quiet period in which everything
must be delivered. `deliveries` records what was updated, delivered and committed, and by whom. At
each save, at each delivery and after each quiet period, `promises` compares these records with what
the package promises; `standbys` watches those that wait for a lease. One function judges one
promise of the package; its name is in the message of a failure. Whatever a promise excludes is in
`exclusions`, with the sentence of the guide that says so.

There are other scenarios than that of pollers (`scenarios`), on the same machines:

- `relay`: pollers whose consumer publishes to a stream, which loses messages and confirmations, is
  late, and drops what comes twice within its window (`streams`).
- `tokens`: processes that make calls with access tokens, of their own or shared in a store; tokens
  are revoked, and the token endpoint and the store fail (`token_service`, `token_promises`).
- `walks`: walks that are killed at any step and resumed from the checkpoint that was written last,
  while applications are updated and the service's clock is wrong (`walk_promises`).

    python -m tests.simulation                     seeds 0 to 99
    python -m tests.simulation --scenario walks    the same of another scenario
    python -m tests.simulation --seed 7            one seed; if it fails, what led to it
    python -m tests.simulation --seed 7 --shrink   the same with as few faults as possible
    python -m tests.simulation --minutes 5 --first 20261128000
    python -m tests.simulation --profile full      longer runs, with more of everything
    python -m tests.simulation.mutants             faults put into the package, each of which seeds
                                                   or an ordinary test must find
    python -m tests.simulation.mutants 12          one of them

The exit status is 0 if nothing is broken, 1 if a seed has failed, and 2 for wrong arguments. A
failure is printed with its scenario, profile and seed, with which the same tree plays it again; how
a seed shows a mutant is said in `mutants`. A failure is a fault of the package, of the simulator,
or of the guide. Once it is mended, the seed goes into `situations.ONCE_FAILED`, which is run each
time.

With ``--minutes``, a table at the end says how often each situation came about. A situation that
never came about makes the exit status 1 too: the simulator then tests less than it says. Play some
minutes of each scenario before you believe it, since the rarest need some hundred seeds.
"""
