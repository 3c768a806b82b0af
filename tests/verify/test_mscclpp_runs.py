"""What is said of small plans that run, most of them damaged in one way: whole verdicts, beside random runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from plan_builders import NOP, add, barrier, block, copy, exchange, gpu, local, on, pair, plan, put, semaphore
from support.plan_chaos import outcome

from hetesynth.judge.mscclpp.judge import plan_violations
from hetesynth.judge.rules import BY_ID
from hetesynth.model.plan import (
    ChannelType,
    GpuPlan,
    Plan,
    PlanBlock,
    PlanOp,
    PlanOperation,
    RemoteBuffer,
    RemoteSlice,
)

GOLDEN = Path(__file__).parent / "golden" / "mscclpp_runs.txt"
Op = PlanOperation
Ops = list[PlanOperation]
Runs = dict[str, Plan]
P: ChannelType = "port"
M: ChannelType = "memory"


def verdict(made: Plan, root: int | None = 0, **options: Any) -> list[str]:
    """Every finding as ``rule: message``; the numbers beside a message are those in it."""
    said = []
    for found in plan_violations(made, root=root, **options):
        rule = BY_ID[found.rule or ""]
        place = re.match(r"(?:gpu (\d+)(?: thread block (\d+)(?: step (\d+))?)?: )?", found.message)
        assert place is not None and found.kind == rule.kind
        numbers = [None if number is None else int(number) for number in place.groups()]
        assert numbers == [found.rank, found.thread_block, found.step]
        said.append(f"{rule.name}: {found.message}")
    return said


# -- one GPU, whose thread blocks and threads order each other

COPY, KEEP, READ = (copy(local(a, 0), local(b, 0)) for a, b in (("i", "o"), ("i", "s"), ("s", "o")))  # type: ignore[arg-type]
OTHER = copy(local("i", 0), local("s", 1))
ACQUIRE, RELEASE = semaphore("sem_acquire", 0), semaphore("sem_release", 0)


def alone(*blocks: Ops, semaphores: tuple[int, ...] = (), chunks: int = 1) -> Plan:
    """An allgather of a single GPU with these thread blocks."""
    codes = tuple(PlanBlock(t, tuple(operations)) for t, operations in enumerate(blocks))
    return plan(GpuPlan(0, chunks, chunks, 2 * chunks, codes, semaphores=semaphores))


def tokens(*blocks: Ops, start: int = 0) -> Plan:
    return alone(*blocks, semaphores=(start,))


ONE_GPU: Runs = {
    "a barrier wakes who came first": alone([barrier(0, 2), COPY], [NOP, barrier(0, 2)]),
    "a barrier orders": alone([KEEP, barrier(0, 2)], [barrier(0, 2), READ]),
    "a barrier met again orders again": alone(
        [OTHER, barrier(0, 2), KEEP, barrier(0, 2)], [barrier(0, 2), barrier(0, 2), READ]
    ),
    "a barrier met again orders not before": alone(
        [OTHER, barrier(0, 2), KEEP, barrier(0, 2)], [barrier(0, 2), READ, barrier(0, 2)]
    ),
    "two barriers in opposite order": alone([barrier(0, 2), barrier(1, 2)], [barrier(1, 2), barrier(0, 2)]),
    "a barrier of one thread block": alone([KEEP, barrier(0, 1), READ]),
    "a barrier passes on what one has heard": tokens(
        [KEEP, NOP, RELEASE], [ACQUIRE, barrier(0, 2)], [barrier(0, 2), READ]
    ),
    "one thread block waits": tokens([COPY, ACQUIRE]),
    "as many wait as are shown": tokens(*[[ACQUIRE]] * 6),
    "more wait than are shown": tokens(*[[ACQUIRE]] * 7),
    "one of two semaphores is free": alone([semaphore("sem_acquire", 0, 1), COPY], semaphores=(1, 0)),
    "neither of two semaphores is free": alone([semaphore("sem_acquire", 0, 1), COPY], semaphores=(0, 0)),
    "two semaphores, the second released later": alone(
        [semaphore("sem_acquire", 0, 1), COPY, semaphore("sem_release", 0)], [semaphore("sem_release", 1)],
        semaphores=(1, 0),
    ),
    "a semaphore of two tokens ends with three": tokens([COPY, RELEASE], start=2),
    "a semaphore orders": tokens([ACQUIRE, NOP, READ], [KEEP, NOP, RELEASE]),
    "no nop after the acquire": tokens([ACQUIRE, READ], [KEEP, NOP, RELEASE]),
    "no nop before the release": tokens([ACQUIRE, NOP, READ], [KEEP, RELEASE]),
    "a token of old": tokens([ACQUIRE, NOP, READ, RELEASE], [KEEP, NOP, RELEASE, ACQUIRE], start=1),
    "two release, all taken": tokens([ACQUIRE, ACQUIRE, NOP, READ], [KEEP, NOP, RELEASE], [RELEASE]),
    "two release, one taken": tokens([ACQUIRE, NOP, READ, ACQUIRE], [KEEP, NOP, RELEASE], [RELEASE]),
    "what it released itself": tokens([KEEP, NOP, RELEASE, ACQUIRE, NOP, READ]),
    "reads what another writes": alone([KEEP, COPY], [copy(local("s", 0), local("s", 1))]),
    "writes what another writes": alone([KEEP, COPY], [KEEP]),
    "writes what another reads": alone([KEEP, NOP, COPY, copy(local("s", 0), local("s", 1))], [NOP, KEEP]),
    "reads what an operation before writes": alone([KEEP, READ]),
    "writes what an operation before writes": alone([COPY, COPY]),
    "writes what an operation before reads": alone(
        [KEEP, NOP, copy(local("s", 0), local("s", 1)), KEEP, COPY]
    ),
    "its slices overlap": alone(
        [copy(local("i", 0, 2), local("s", 0, 2)), COPY, copy(local("i", 1), local("o", 1)), NOP,
         copy(local("s", 0, 2), local("s", 1, 2))],
        chunks=2,
    ),
    "a contribution twice": alone([add(local("o", 0), local("i", 0), local("i", 0))]),
    "different chunks": alone(
        [COPY, copy(local("i", 1), local("o", 1)), add(local("s", 0), local("i", 0), local("i", 1))], chunks=2
    ),
    "what is not there, read twice": alone([READ, NOP, READ]),
    "over the input": alone([COPY, NOP, copy(local("o", 0), local("i", 0))]),
    "over the input, in place": replace(alone([copy(local("o", 0), local("i", 0))]), in_place=True),
    "the second of two chunks": alone([COPY], chunks=2),
}  # fmt: skip


# -- two GPUs that gather, without one operation


def large(k: int | None = None, *after: PlanOperation) -> Plan:
    """Slices of two chunks; gpu 0 without its operation ``k``."""

    def part(rank: int) -> Ops:
        both = local("i", 0, 2)
        own = copy(both, local("o", 2 * rank, 2))
        begin, end = [on("rlxsignal"), on("rlxwait"), NOP], [NOP, on("signal"), on("wait")]
        return [*begin, put(both, 2 * rank), own, *end]

    first = [operation for i, operation in enumerate(part(0)) if i != k]
    blocks = (block(0, [*first, *after]), block(0, part(1)))
    return plan(*(gpu(r, blocks[r], i=2, o=4, s=4) for r in (0, 1)))


def missing(kind: ChannelType, k: int) -> Plan:
    return pair([operation for i, operation in enumerate(exchange(0, kind)) if i != k], kind)


TWO_GPUS: Runs = {
    **{
        f"{kind}: no {op.op} at {k}": missing(kind, k) for kind in (M, P) for k, op in enumerate(exchange(0, kind))
    },
    **{f"slices of two chunks: not {k}": large(k) for k in (None, *range(7))},
    "slices of two chunks: undefined": large(None, NOP, copy(local("s", 0, 2), local("s", 2, 2))),
    "slices of two chunks: over the input": large(None, NOP, copy(local("o", 0, 2), local("i", 0, 2))),
}


# -- a broadcast of four chunks over channels whose threads run apart

S, W, F = (on(op, kind=P) for op in ("signal", "wait", "flush"))  # type: ignore[arg-type]
OWN, USE = copy(local("i", 0, 4), local("o", 0, 4)), copy(local("o", 0, 4), local("s", 0, 4))
WHOLE = put(local("i", 0, 4), 0, kind=P)
AGAIN = put(local("i", 1), 1, kind=P)
LATER, LAST = on("signal", 1, kind=P), on("wait", 1, kind=P)


def cast(*blocks: Ops, to: list[Ops] | None = None, ends: tuple[int, int] = (2, 2), kind: ChannelType = P) -> Plan:
    """Thread blocks of gpu 0, which send to gpu 1. All have all channels; ``ends``: how many there are."""
    made = []
    for rank, part in enumerate((blocks, to or [[S, W, NOP, USE]])):
        every, peers = tuple(range(ends[rank])), (1 - rank,) * ends[rank]
        names = ("memory_channels", "memory_buffers", "memory_peers") if kind == M else (
            "port_channels", "port_buffers", "port_peers")  # fmt: skip
        codes = [
            PlanBlock(t, tuple(ops), **{names[0]: every, names[1]: (0, 1, 2)})  # type: ignore[arg-type]
            for t, ops in enumerate(part)
        ]
        remote = tuple(RemoteBuffer(1 - rank, buffer, (kind,)) for buffer in ("o", "s", "i"))  # type: ignore[arg-type]
        one = GpuPlan(rank, 4, 4, 4, tuple(codes), remote_buffers=remote, semaphores=(0, 0))
        made.append(replace(one, **{names[2]: peers}))  # type: ignore[arg-type]
    return plan(*made, name="broadcast")


def heard(*operations: PlanOperation) -> Ops:
    """Behind the first signal of gpu 1."""
    return [W, NOP, OWN, *operations]


def threads(op: PlanOp, *chunks: int) -> PlanOperation:
    """Thread k puts the k-th of ``chunks``, all on channel 0."""
    to = tuple(RemoteSlice(0, chunk, 1) for chunk in chunks)
    return Op(op, P, (0,) * len(chunks), tuple(local("i", chunk) for chunk in chunks), to)


def by_second(op: PlanOp) -> PlanOperation:
    """Thread 1 does so on channel 0, thread 0 on channel 1."""
    return on(op, 1, 0, kind=P)


SCRATCH = put(local("s", 0, 4), 0, kind=P)
FILL = copy(local("i", 0, 4), local("s", 0, 4))
TAKE, GIVE = semaphore("sem_acquire", 1), semaphore("sem_release", 1)
THREE = [S, W, W, W, NOP, USE]

PORTS: Runs = {
    "one put": cast(heard(WHOLE, S, F)),
    "four threads put, the first signals after a nop": cast(heard(threads("put", 0, 1, 2, 3), NOP, S, F)),
    "four threads put, the first signals": cast(heard(threads("put", 0, 1, 2, 3), S, NOP, F)),
    "four threads put, the second signals": cast(
        heard(threads("put", 0, 1, 2, 3), by_second("signal"), NOP, F), to=[[S, W, NOP, USE, LAST]]
    ),
    "four threads put, the first flushes": cast(heard(threads("put", 0, 1, 2, 3), F, NOP, S)),
    "two threads put, the second flushes": cast(heard(threads("put", 0, 1, 2, 3), by_second("flush"), NOP, S)),
    "two threads put and both flush": cast(
        heard(threads("put", 0, 1), threads("put", 2, 3), by_second("flush"), F, NOP, S)
    ),
    "each thread signals its put, four waits": cast(
        heard(threads("pws", 0, 1, 2, 3), NOP, F), to=[[S, W, W, W, W, NOP, USE]]
    ),
    "each thread signals its put, three waits": cast(heard(threads("pws", 0, 1, 2, 3), NOP, F), to=[[*THREE, W]]),
    "each thread flushes its put": cast(heard(threads("pwsf", 0, 1, 2, 3)), to=[[S, W, W, W, W, NOP, USE]]),
    "puts, then puts with signals": cast(
        heard(threads("put", 0, 1), threads("pws", 2, 3), NOP, F), to=[[S, W, W, NOP, USE]]
    ),
    "puts with signals, then puts": cast(
        heard(threads("pws", 0, 1), threads("put", 2, 3), NOP, F), to=[[S, W, W, NOP, USE]]
    ),
    "three puts of one thread, a signal after each": cast(
        heard(*(threads("pws", chunk) for chunk in (0, 1)), put(local("i", 2, 2), 2, kind=P), S, F), to=[THREE]
    ),
    "three puts of one thread, all read after two signals": cast(
        heard(*(threads("pws", chunk) for chunk in (0, 1)), put(local("i", 2, 2), 2, kind=P), S, F),
        to=[[S, W, W, NOP, USE, W]],
    ),
    "its signal, then that of another thread": cast(
        heard(WHOLE, S, by_second("signal"), NOP, F), to=[[S, W, NOP, USE, W, LAST]]
    ),
    "its signal and that of another thread": cast(
        heard(WHOLE, S, by_second("signal"), NOP, F), to=[[S, W, W, NOP, USE, LAST]]
    ),
    "another thread block puts": cast(heard(RELEASE, TAKE, NOP, S, F), [ACQUIRE, NOP, WHOLE, NOP, GIVE]),
    "another thread block puts, no nop before the release": cast(
        heard(RELEASE, TAKE, NOP, S, F), [ACQUIRE, NOP, WHOLE, GIVE]
    ),
    "another thread block puts and flushes": cast(
        heard(RELEASE, TAKE, NOP, S), [ACQUIRE, NOP, WHOLE, F, NOP, GIVE]
    ),
    "another thread of another thread block puts": cast(
        heard(RELEASE, TAKE, by_second("signal"), by_second("flush")),
        [ACQUIRE, NOP, WHOLE, NOP, GIVE],
        to=[[S, W, NOP, USE, LAST]],
    ),
    "another thread block puts between barriers": cast(
        heard(barrier(0, 2), barrier(0, 2), S, F), [barrier(0, 2), WHOLE, barrier(0, 2)]
    ),
    "two thread blocks put between barriers": cast(
        heard(barrier(0, 2), threads("put", 0, 1), barrier(0, 2), S, F),
        [barrier(0, 2), put(local("i", 2, 2), 2, kind=P), barrier(0, 2)],
    ),
    "two thread blocks put at once on a channel": cast(
        [W, NOP, barrier(0, 2), OWN, WHOLE, barrier(0, 2), S, F], [barrier(0, 2), AGAIN, barrier(0, 2)]
    ),
    "the source is kept": cast(heard(FILL, NOP, SCRATCH, S, F)),
    "the source is overwritten": cast(heard(FILL, NOP, SCRATCH, S, FILL, F)),
    "the source is overwritten after a flush and a nop": cast(heard(FILL, NOP, SCRATCH, S, F, NOP, FILL)),
    "the source is not there": cast([W, NOP, COPY, SCRATCH, S, F]),
    "one thread puts a chunk twice": cast(heard(WHOLE, WHOLE, S, F)),
    "two threads put a chunk": cast(heard(threads("put", 0, 1, 2, 3), AGAIN, NOP, S, F)),
    "two threads put a chunk, a nop between": cast(heard(threads("put", 0, 1, 2, 3), NOP, AGAIN, S, F)),
    "nobody waits for a signal": cast(heard(WHOLE, S, F, S)),
}


# -- the same over memory channels

SIGNAL, WAIT = on("signal"), on("wait")
SEND = put(local("i", 0, 4), 0)
GET = Op("get", M, (), (RemoteSlice(0, 0, 4),), (local("o", 0, 4),))
OVERLAP = Op("put", M, (), (local("i", 0, 2),) * 2, (RemoteSlice(1, 0, 2), RemoteSlice(1, 1, 2)))
INTO = Op("put", M, (), (local("o", 0, 2),), (RemoteSlice(2, 1, 2),))


def near(*blocks: Ops, to: list[Ops], ends: tuple[int, int] = (2, 2)) -> Plan:
    return cast(*blocks, to=to, ends=ends, kind=M)


def took(before: Ops, after: Ops) -> Plan:
    return near([OWN, NOP, SIGNAL, WAIT], to=[[*before, GET, *after]])


SENT = [WAIT, NOP, OWN, SEND, NOP, SIGNAL]
USED = [SIGNAL, WAIT, NOP, USE]
MEMORY: Runs = {
    "one send": near(SENT, to=[USED]),
    "two signal on a channel at once": near(SENT, [SIGNAL], to=[[SIGNAL, WAIT, WAIT, NOP, USE]]),
    "two signal on a channel, a barrier between": near(
        [*SENT, barrier(0, 2)], [barrier(0, 2), SIGNAL], to=[[SIGNAL, WAIT, WAIT, NOP, USE]]
    ),
    "two signal on two channels": near(SENT, [on("signal", 1)], to=[[*USED, on("wait", 1)]]),
    "two wait on a channel at once": near([*SENT, SIGNAL], to=[USED, [WAIT]]),
    "two wait on a channel, a barrier between": near(
        [*SENT, SIGNAL], to=[[*USED, barrier(0, 2)], [barrier(0, 2), WAIT]]
    ),
    "no far end to signal to": near([*SENT, on("signal", 1)], to=[USED], ends=(2, 1)),
    "no far end to wait for": near([on("wait", 1), *SENT], to=[USED], ends=(2, 1)),
    "waits for both of two channels": near([on("wait", 0, 1), *SENT[1:]], to=[USED[1:]]),
    "two signals left": near([*SENT, SIGNAL, SIGNAL], to=[USED]),
    "its slices overlap at a peer": near([WAIT, NOP, OWN, SEND, OVERLAP, NOP, SIGNAL], to=[USED]),
    "a get": took([WAIT, NOP], [NOP, SIGNAL]),
    "a get of what nobody has heard of": took([NOP], [NOP, SIGNAL, WAIT]),
    "a get after a relaxed wait": took([on("rlxwait"), NOP], [NOP, SIGNAL]),
    "a get, then a relaxed signal": took([WAIT, NOP], [NOP, on("rlxsignal")]),
    "a get, then a relaxed signal at once": took([WAIT, NOP], [on("rlxsignal")]),
    "a relaxed signal, then a signal": near(
        [WAIT, NOP, OWN, on("rlxsignal"), SEND, NOP, SIGNAL], to=[[SIGNAL, WAIT, WAIT, NOP, USE]]
    ),
    "a relaxed signal, then a signal, one wait": near(
        [WAIT, NOP, OWN, SEND, NOP, on("rlxsignal"), SIGNAL], to=[[SIGNAL, WAIT, NOP, USE, WAIT]]
    ),
    "relaxed signals only": near(
        [on("rlxwait"), NOP, OWN, SEND, NOP, on("rlxsignal")], to=[[on("rlxsignal"), WAIT, NOP, USE]]
    ),
    "a thread block has heard of the peer, another not": near(
        [ACQUIRE, barrier(0, 2), on("rlxwait"), NOP],
        [barrier(0, 2), OWN, SEND, NOP, SIGNAL],
        [RELEASE],
        to=[[on("rlxsignal"), WAIT, NOP, USE]],
    ),
    "into a peer's input": near([*SENT[:-1], INTO, NOP, SIGNAL], to=[USED]),
}

RUNS = {**ONE_GPU, **TWO_GPUS, **PORTS, **MEMORY}


def test_whole_verdicts(golden: Callable[[Path, bytes], None]) -> None:
    lines = []
    for name, made in RUNS.items():
        lines += [f"{name}:", *(f"    {said}" for said in verdict(made) or ["right"])]
    golden(GOLDEN, ("\n".join(lines) + "\n").encode())


def test_random_runs_of_what_is_right_are_right() -> None:
    for name, made in RUNS.items():
        said = verdict(made)
        outcomes = {outcome(made, 0, seed) for seed in range(5)}
        if not said or any(line.startswith("plan-deadlock") for line in said):
            assert outcomes == ({"stuck"} if said else {"right"}), name
