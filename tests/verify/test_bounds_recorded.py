"""What the judges of bounds say of good, forged and falsified certificates is what they said before."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bounds.test_delay_bounds import any_cluster, three_servers, wired
from bounds.test_time_bounds import every_bound, random_topology
from mutants.test_certificate_forgeries import CASES, case
from support.forgeries import forgeries
from support.graphs import full, line, problem, ring, servers, star
from test_bounds_prices import grown

from hetesynth.judge.bounds import delays, query
from hetesynth.judge.bounds.judge import growth_steps, recheck
from hetesynth.judge.bounds.laws import AtMost, Refuted, price_steps, stepped_price_steps
from hetesynth.judge.bounds.time_bounds import time_bound_violations
from hetesynth.model.bound import (
    DelayedPrices,
    EnteredSet,
    LowerBound,
    PartCrossings,
    PriceWitness,
    SteppedPriceWitness,
    TimeBound,
    UnsatWitness,
)
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.problem import Problem
from hetesynth.model.topology import Link, Topology, Vertex, Wire
from hetesynth.search import step_flow
from hetesynth.search.solve import bounds_of

FILE = Path(__file__).parent / "golden" / "recorded.json"
Recorded = Callable[[str, Iterable[str]], None]


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> Recorded:
    """``recorded(case, verdicts)``: they are those of the golden file, which holds a digest of each case."""

    def check(case: str, verdicts: Iterable[str]) -> None:
        every = list(verdicts)
        digest = f"{len(every)} {hashlib.sha256(chr(10).join(every).encode()).hexdigest()[:16]}"
        if request.config.getoption("--update-golden"):
            known = json.loads(FILE.read_text()) | {case: digest}
            FILE.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
        assert json.loads(FILE.read_text())[case] == digest

    return check


def said(wanted: Problem, bound: LowerBound) -> str:
    verdict = recheck(wanted, bound)
    return "; ".join(v.message for v in verdict.violations) or f"ok {verdict.open}"


@pytest.mark.parametrize("given", CASES, ids=[" ".join(map(str, given)) for given in CASES])
def test_forgeries_of_tiny_problems(given: tuple[str, CollectiveName, int, bool], recorded: Recorded) -> None:
    wanted, bounds, _ = case(*given)
    verdicts = (said(wanted, forged) for bound in bounds for forged in (bound, *forgeries(wanted, bound)))
    recorded(f"forged {given}", verdicts)


LARGER: dict[str, Problem] = {
    "reduce": problem(servers([3, 2], nics=1), "reduce", 2),
    "reduce, eq. 8": problem(star(5), "reduce", exclusive=True),
    "allreduce": problem(servers([2, 2, 2], nics=1), "allreduce", exclusive=True),
    "scatter": problem(line(4), "scatter", 2),
    "alltoall": problem(servers([2, 2], nics=1), "alltoall"),
    "allgather": problem(servers([2, 3], nics=1), "allgather"),
    "broadcast": problem(ring(5), "broadcast", 3),
    "full": problem(full(4), "reducescatter", exclusive=True),
}


@pytest.mark.parametrize("name", LARGER)
def test_forgeries_of_larger_problems(name: str, recorded: Recorded) -> None:
    wanted = LARGER[name]
    rng = random.Random(name)
    verdicts = []
    for bound in bounds_of(wanted):
        every = list(forgeries(wanted, bound))
        verdicts += [said(wanted, forged) for forged in (bound, *rng.sample(every, min(len(every), 150)))]
    recorded(f"larger {name}", verdicts)


def stepped(wanted: Problem) -> Iterator[LowerBound]:
    """A bound by prices of steps, and falsified ones."""
    witness = SteppedPriceWitness(2, tuple((r.name, s, 1) for r in wanted.resources[:2] for s in range(2)), 9, 4)
    found = step_flow.proved_bound(wanted, 1, 40_000) if step_flow.refuses(wanted) is None else None
    good = found or LowerBound(3, "stepped-price", "", witness)
    yield good
    assert isinstance(good.witness, SteppedPriceWitness)
    for change in _numbers(good.witness):
        for more in (0, 1):
            yield replace(good, witness=change, steps=change.steps + 1 + more)


def _numbers(witness: Any) -> Iterator[Any]:
    """Each number one up, one down, doubled; each price left out, twice, of another name, step or amount."""
    for f in fields(witness):
        value = getattr(witness, f.name)
        if isinstance(value, int):
            yield from (replace(witness, **{f.name: other}) for other in (value - 1, value + 1, 2 * value, -1, 0))
    for i, (name, step, price) in enumerate(witness.prices):
        kept = [*witness.prices[:i], *witness.prices[i + 1 :]]
        others = [("nothing", step, price), (name, step + 1, price), (name, step - 1, price), (name, -1, price)]
        others += [(name, witness.steps, price), (name, step, price + 1), (name, step, -1), (name, step, 0)]
        others += [(name, step, 1 << 32), (name, step, (1 << 32) + 1)]
        yield replace(witness, prices=tuple(kept))
        yield replace(witness, prices=(*witness.prices, (name, step, price)))
        for other in others:
            earned = witness.earned
            yield replace(witness, prices=(*kept, other))
            for more in range(-2, 3):
                yield replace(witness, prices=(*kept, other), earned=earned + more)


@pytest.mark.parametrize("name", ["scatter", "alltoall", "allgather", "reduce"])
def test_prices_of_steps(name: str, recorded: Recorded) -> None:
    recorded(f"stepped {name}", (said(LARGER[name], bound) for bound in stepped(LARGER[name])))


def changed(value: Any, rng: random.Random) -> Any:
    """Something of the same kind, but for one part."""
    match value:
        case bool():
            return not value
        case int() | Fraction():
            return rng.choice((value + 1, value - 1, value * 2, -value, 0 * value))
        case tuple() if value:
            i = rng.randrange(len(value))
            kept = (*value[:i], *value[i + 1 :])
            return rng.choice((kept, (*value, value[i]), (*value[:i], changed(value[i], rng), *value[i + 1 :])))
        case None:
            return rng.choice((0, 1, 7))
        case _ if hasattr(value, "__dataclass_fields__"):
            f = rng.choice(fields(value))
            return replace(value, **{f.name: changed(getattr(value, f.name), rng)})
    return value


def falsified(bound: TimeBound, rng: random.Random) -> Iterator[TimeBound]:
    yield bound
    for _ in range(12):
        yield replace(bound, witness=changed(bound.witness, rng))
    for name in ("latency", "seconds_per_byte", "backwards", "supply"):
        yield replace(bound, **{name: changed(getattr(bound, name), rng)})
    yield replace(bound, scope="tree-based" if bound.scope == "all" else "all")
    for part in (Fraction(999, 1000), Fraction(1001, 1000)):
        yield replace(bound, seconds_per_byte=bound.seconds_per_byte * part)
        yield replace(bound, supply=tuple((time, rate * part) for time, rate in bound.supply))
        yield replace(bound, supply=tuple((time * part, rate) for time, rate in bound.supply))


@pytest.mark.parametrize("seed", range(12))
def test_bounds_of_time(seed: int, recorded: Recorded) -> None:
    rng, verdicts = random.Random(seed), []
    makers = (partial(random_topology, groups=True), any_cluster, three_servers)
    topology = makers[seed % 3](rng)
    for name, root, bound in every_bound(topology):
        for wrong in falsified(bound, rng):
            try:
                found = time_bound_violations(topology, name, root, wrong)
                verdicts.append(f"{name}: " + "; ".join(v.message for v in found))
            except (
                TypeError,
                IndexError,
                AttributeError,
                KeyError,
                ValueError,
            ) as error:  # no witness that a reader lets through
                verdicts.append(f"{name}: {type(error).__name__}")
    recorded(f"time {seed}", verdicts)


def shown(prove: Callable[[], object]) -> str:
    try:
        return repr(prove())
    except Refuted as reason:
        return str(reason)
    except (TypeError, IndexError, KeyError, ValueError, ZeroDivisionError) as error:
        return type(error).__name__


def priced_at_random(topology: Topology, rng: random.Random) -> DelayedPrices:
    """Prices of most wires and groups; sets that owe little."""
    n, limited = topology.ranks, [wire.bandwidth is not None or rng.random() < 0.05 for wire in topology.wires]
    wires = tuple(rng.randint(0, 20) if priced else 0 for priced in limited)
    sets = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        inside = tuple(rng.sample(range(n), rng.randint(1, n - 1)))
        sets.append(EnteredSet(inside, rng.randint(1, 3), rng.choice((None, *inside, *inside, rng.randrange(n)))))
    nearest = rng.choice((Fraction(0), Fraction(1), Fraction(1, 2), Fraction(3)))
    source = rng.choice((None, *range(n), *range(n), n, -1))
    return DelayedPrices(wires, tuple(rng.randint(0, 4) for _ in topology.groups), tuple(sets), nearest, source)


def one_way(rng: random.Random) -> Topology:
    """Of five ranks each sends to one or two that follow; the first cannot be reached."""
    wires = [(u, v, rng.randint(1, 5), rng.randint(0, 3)) for u in range(4) for v in range(u + 1, min(u + 3, 5))]
    return wired(5, *wires)


MAKERS = (partial(random_topology, groups=True), any_cluster, three_servers, one_way)


@pytest.mark.parametrize("seed", range(8))
def test_delays_of_any_prices(seed: int, recorded: Recorded) -> None:
    rng, verdicts = random.Random(seed), []
    for _ in range(6):
        topology = rng.choice(MAKERS)(rng)
        for name in COLLECTIVE_NAMES:
            for _ in range(12):
                root = rng.randrange(topology.ranks) if name in ROOTED else None
                turned = (name in ("reducescatter", "reduce", "scatter")) != (rng.random() < 0.2)
                question = topology, name, root, turned, priced_at_random(topology, rng)
                verdicts.append(shown(partial(delays.delayed, *question)))
    assert sum(verdict.startswith("((") for verdict in verdicts) > 40
    recorded(f"delays {seed}", verdicts)


@pytest.mark.parametrize("seed", range(4))
def test_what_enters_any_parts(seed: int, recorded: Recorded) -> None:
    rng, verdicts = random.Random(seed), []
    for _ in range(30):
        topology = rng.choice(MAKERS)(rng)
        n, number = topology.ranks, rng.randint(1, topology.ranks)
        parts = [[r for r in range(n) if r % number == p] for p in range(number)]
        ends = [(rng.choice(part), rng.choice(part)) for part in parts]
        if rng.random() < 0.2:
            ends[rng.randrange(number)] = rng.choice(((-1, 0), (0, n), (n - 1, 0), (0, 0)))
        if rng.random() < 0.1:
            ends.pop()
        others = range(n, len(topology.vertices))
        sides = [
            (*(r for r in range(n) if r not in part), *(v for v in others if rng.random() < 0.5)) for part in parts
        ]
        witness = PartCrossings(
            tuple(map(tuple, parts)), tuple(sides), Fraction(rng.randint(1, 4), 2), tuple(ends)
        )
        verdicts.append(shown(partial(delays.into_parts, topology, witness)))
    recorded(f"parts {seed}", verdicts)


def test_latencies_that_cannot_be_added_up_are_refused() -> None:
    """The longest of two: four times as many as there are ranks have to stay below 2 ** 59."""
    for seconds in (2**56 - 1, 2**56):
        wires = (Wire(0, 1, "wire", Fraction(1), 1, Fraction(seconds)), Wire(1, 0, "wire", Fraction(1)))
        links = tuple(Link.over(w.src, w.dst, [i], wires) for i, w in enumerate(wires))
        topology = Topology("slow", tuple(Vertex(f"g{i}", "gpu", "s") for i in range(2)), 2, wires, links)
        witness = DelayedPrices((1, 1), (), (EnteredSet((1,), 1, 1),))
        said = shown(partial(delays.delayed, topology, "broadcast", 0, False, witness))
        assert ("too fine to be added up" in said) == (seconds == 2**56)


@pytest.mark.parametrize("seed", range(10))
def test_growth_of_any_parts(seed: int, recorded: Recorded) -> None:
    """From one holder or several, in one part or several."""
    rng, verdicts = random.Random(seed), []
    for _ in range(40):
        wanted, witness = grown([rng.randint(1, 4) for _ in range(rng.randint(1, 6))], rng, rng.choice((1, 2, 4)))
        holders = frozenset(rng.sample(range(wanted.ranks), min(wanted.ranks, rng.choice((1, 1, 2, 3)))))
        given = replace(wanted, collective=replace(wanted.collective, pre=(holders,)))
        verdicts.append(shown(partial(growth_steps, given, witness)))
    recorded(f"growth {seed}", verdicts)


@pytest.mark.parametrize("seed", range(10))
def test_prices_of_any_problem(seed: int, recorded: Recorded) -> None:
    """Prices at random, of a step and of each step, with what they earn and about what is paid."""
    rng, verdicts = random.Random(seed), []
    for _ in range(8):
        wanted = rng.choice([*LARGER.values()])
        names = [(resource.name, rng.randint(0, 4)) for resource in wanted.resources if rng.random() < 0.8]
        earned = sum(dict(names).get(r.name, 0) * r.capacity for r in wanted.resources)
        for paid in (0, 1, *range(2, 80, 2)):
            claim = PriceWitness(tuple(names), paid, earned)
            verdicts.append(shown(partial(price_steps, wanted, claim)))
        steps = rng.randint(1, 4)
        every = [(r.name, step) for r in wanted.resources for step in range(steps) if rng.random() < 0.7]
        in_steps = [(*place, rng.randint(0, 3)) for place in every]
        earned = sum(price * {r.name: r.capacity for r in wanted.resources}[name] for name, _, price in in_steps)
        for paid in (0, 1, earned, *range(earned + 1, earned + 80, 3)):
            stated = SteppedPriceWitness(steps, tuple(in_steps), paid, earned)
            verdicts.append(shown(partial(stepped_price_steps, wanted, stated)))
    recorded(f"prices {seed}", verdicts)


# -- assertions of a solver's query

ASKED: dict[str, Problem] = {
    "allgather": problem(servers([2, 2], nics=1), "allgather"),
    "broadcast": problem(line(3), "broadcast", 2),
    "alltoall": problem(ring(4), "alltoall"),
    "few peers": replace(problem(full(4), "allgather"), max_peers=2),
    "allreduce": problem(ring(4), "allreduce"),
    "allreduce, eq. 8": problem(servers([2, 2], nics=1), "allreduce", exclusive=True),
    "allreduce, two chunks": problem(line(3), "allreduce", 2),
    "allreduce, few peers": replace(problem(full(4), "allreduce"), max_peers=2),
}


def variables(wanted: Problem, steps: int, rng: random.Random) -> list[str]:
    """Names of what laws say of one message, some of other messages to the same rank, and some that are not."""
    a = rng.randrange(len(wanted.arcs))
    arc, k = wanted.arcs[a], rng.randrange(len(wanted.collective.chunks))
    t, c = rng.randrange(-1, steps + 1), rng.randrange(wanted.ranks)
    into = [b for b, other in enumerate(wanted.arcs) if other.dst == arc.dst]
    names = [f"send_{k}_{b}_{u}" for b in into for u in (t, t - 1)]
    names += [f"met_{arc.src}_{arc.dst}_1", f"met_{arc.dst}_{arc.src}_0", f"met_{arc.dst}_{arc.src}_1"]
    if wanted.collective.reduces:
        ends = [(arc.src, t), (arc.dst, t), (arc.dst, t + 1), (c, t)]
        names += [f"part_{k}_{c}_{r}_{u}" for r, u in ends]
        names += [f"copied_{k}_{arc.dst}_{t}", f"brings_{k}_{c}_{a}_{t}", f"brings_{k}_{c}_{into[0]}_{t}"]
        names += [f"new_{k}_{x}_{arc.dst}_{t}" for x in range(wanted.ranks)]
        names += [f"send_{k - 1}_{b}_{u}" for b in into for u in range(t + 1)]
    else:
        ends = [(arc.src, t), (arc.dst, t), (arc.dst, t + 1), (arc.src, t - 1)]
        names += [f"has_{k}_{r}_{u}" for r, u in ends]
    chunks, ranks, arcs = len(wanted.collective.chunks), wanted.ranks, len(wanted.arcs)
    odd = [f"send_{chunks}_{a}_{t}", f"send_{k}_{arcs}_{t}", f"has_{chunks}_{c}_{t}", f"has_{k}_{ranks}_{t}"]
    odd += [f"met_{ranks}_{c}_1", f"met_{c}_{ranks}_1", f"met_{c}_{c}_2", "send_0_0", "send_0_0_0_0", "sent_0_0_0"]
    odd += [f"part_{k}_{c}_{c}_{steps}", f"part_{k}_{c}_{c}_{steps + 1}", f"send_{k}_{a}_{steps}", "has_0_x_0"]
    odd += [name for name in names if "-" in name]
    return [*(name for name in dict.fromkeys(names) if "-" not in name), *rng.sample(odd, rng.choice((0, 0, 1)))]


def counted(wanted: Problem, steps: int, rng: random.Random) -> list[str]:
    """Names that a law may count together: of one step, of some chunks and links; peers of one rank."""
    t, some = rng.randrange(steps), rng.sample(range(len(wanted.collective.chunks)), 2)
    rank, way = rng.randrange(wanted.ranks), rng.randrange(2)
    links = [a for a, arc in enumerate(wanted.arcs) if rank in (arc.dst, arc.src)]
    match rng.randrange(4):
        case 0:
            return [f"met_{rank}_{r}_{way if rng.random() < 0.95 else 1 - way}" for r in range(wanted.ranks)]
        case 1:
            return [f"brings_{k}_{c}_{a}_{t}" for k in some[:1] for c in (rank, 0) for a in links[:3]]
        case 2:
            return [f"send_{some[0]}_{a}_{t}" for a in links if wanted.arcs[a].dst == rank]
    return [f"send_{k}_{a}_{t}" for k in some for a in links]


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("name", ASKED)
def test_any_assertion_of_a_query(name: str, steps: int, recorded: Recorded) -> None:
    """Clauses and counts of few names that laws may speak of together."""
    wanted, rng, verdicts = ASKED[name], random.Random(f"{name} {steps}"), []
    facts = query.query_facts(wanted, steps)
    for _ in range(600):
        names = variables(wanted, steps, rng)
        for _ in range(5):
            some = rng.sample(names, min(len(names), rng.choice((0, 1, 1, 2, 2, 3, 3, 4, 5))))
            clause = tuple((one, rng.random() < 0.5) for one in some)
            verdicts.append(shown(partial(facts.check_clause, clause)))
        for _ in range(4):
            every = list(dict.fromkeys([*counted(wanted, steps, rng), *rng.choice(([], [], names[:1]))]))
            count = AtMost(tuple(rng.sample(every, rng.randint(0, len(every)))), rng.randint(0, 3))
            verdicts.append(shown(partial(facts.check_count, count)))
    accepted = sum(verdict == "None" for verdict in verdicts)
    assert 200 < accepted < len(verdicts) - 200
    recorded(f"asked {name} {steps}", verdicts)


def test_queries_that_say_nothing_or_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    def verdict(wanted: Problem, text: str, steps: int = 0) -> str:
        return shown(partial(query.query_steps, wanted, UnsatWitness(steps, text)))

    copies, false = ASKED["allgather"], "(assert false)"
    assert verdict(copies, false) == "1" and "asserts nothing" in verdict(copies, "(check-sat)")
    assert "is negative" in verdict(copies, false, -1)
    assert "about copies" in verdict(problem(line(3), "reduce"), false)
    deep = "(assert " + "(or " * (query.MAX_DEPTH - 1) + "false" + ")" * query.MAX_DEPTH
    assert verdict(copies, deep) == "1"
    assert "too deeply" in verdict(copies, deep.replace("false", "(or false)"))
    monkeypatch.setattr(query, "MAX_QUERY", len(false))
    assert verdict(copies, false) == "1" and "too large" in verdict(copies, false + " ")
