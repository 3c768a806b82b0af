"""Rechecking a solver's query: every assertion must follow from the problem.

Each assertion has to hold in every schedule of ``steps`` steps, read as send_k_a_t (chunk k leaves over link a
in step t), has_k_r_t (rank r holds chunk k before step t) and met_r_p_1 (rank r sends to peer p; 0: receives);
of an allreduce as ``query_sums`` says.
Whether the query is unsatisfiable is for a solver to say: both together prove that no schedule exists. Transfers
that bring a rank what it has, or has already got, are left out of the schedule first, which keeps it valid; a
transfer that takes longer counts as if it arrived after its first step.

Of SMT-LIB 2 only Boolean constants, clauses and counts are read; all else is refused, since a command or an
operator that is not known here could change what the text means.
"""

import re
from collections import ChainMap, defaultdict
from collections.abc import Iterator, MutableMapping
from typing import Union

from hetesynth.judge.bounds.laws import NEVER, AtMost, Clause, Refuted, demand, hops_over, is_count, shown
from hetesynth.judge.bounds.query_sums import SumFacts
from hetesynth.model.bound import UnsatWitness
from hetesynth.model.problem import Problem

Place = tuple[int, int, int]  # chunk, link or rank, step; of met: rank, peer, whether it sends
Tree = Union[str, "list[Tree]"]

KINDS = ("send", "has", "met")
MAX_QUERY = 256 * 1024 * 1024
MAX_DEPTH = 100
_TOKEN = re.compile(r";[^\n]*|[()]|\|[^|]*\||\"[^\"]*\"|[^\s()\";|]+")
_IGNORED = frozenset({"set-info", "set-logic", "check-sat", "exit"})


def query_steps(problem: Problem, claim: UnsatWitness) -> int:
    """Return the steps that a query proves if unsatisfiable. Refuted where it does not follow from the problem."""
    reduces = problem.collective.reduces
    demand(not reduces or problem.collective.name == "allreduce", "a query must be about copies, or an allreduce")
    demand(claim.steps >= 0, "the number of steps is negative")
    demand(len(claim.query) <= MAX_QUERY, "the query is too large")
    facts = query_facts(problem, claim.steps)
    stated = False
    for assertion in assertions(claim.query):
        stated = True
        if isinstance(assertion, AtMost):
            facts.check_count(assertion)
        else:
            facts.check_clause(assertion)
    demand(stated, "the query asserts nothing")
    return claim.steps + 1


def query_facts(problem: Problem, steps: int) -> "Facts | SumFacts":
    """Return the facts of every schedule of ``problem`` in ``steps`` steps: of copies, or of an allreduce."""
    return SumFacts(problem, steps) if problem.collective.reduces else Facts(problem, steps)


class Facts:
    """The facts that hold in every schedule of a copying problem within a number of steps."""

    def __init__(self, problem: Problem, steps: int) -> None:
        self.problem = problem
        self.steps = steps
        self.into: list[list[int]] = [[] for _ in range(problem.ranks)]
        self.beside: list[set[int]] = [set() for _ in range(problem.ranks)]
        for a, arc in enumerate(problem.arcs):
            self.into[arc.dst].append(a)
            self.beside[arc.src].add(arc.dst)
        self.resources_of: dict[int, set[int]] = defaultdict(set)
        for r, resource in enumerate(problem.resources):
            for a in resource.arcs:
                self.resources_of[a].add(r)
        self._hops: dict[frozenset[int], list[int]] = {}
        self._places: dict[str, tuple[str, Place]] = {}

    def hops(self, chunk: int) -> list[int]:
        """The first step before which each rank can hold ``chunk``."""
        pre = self.problem.collective.pre[chunk]
        if pre not in self._hops:
            self._hops[pre] = hops_over(self.beside, sorted(pre))
        return self._hops[pre]

    def place(self, name: str) -> tuple[str, Place]:
        """Return the kind of a variable, and its ``Place``. Refuted where it names what does not exist."""
        if name not in self._places:
            kind, *numbers = name.split("_")
            if kind not in KINDS or len(numbers) != 3 or not all(map(is_count, numbers)):
                raise Refuted(f"the query has a variable that is not about this problem: {name[:40]}")
            first, second, third = (int(n) for n in numbers)
            ranks, chunks = self.problem.ranks, len(self.problem.collective.chunks)
            exists = {
                "send": first < chunks and second < len(self.problem.arcs),
                "has": first < chunks and second < ranks,
                "met": first < ranks and second < ranks and third in (0, 1),
            }[kind]
            demand(exists, f"the query speaks of a chunk, link or rank that does not exist: {name[:40]}")
            self._places[name] = kind, (first, second, third)
        return self._places[name]

    def check_clause(self, clause: Clause) -> None:
        """Raise Refuted unless a law of motion implies ``clause``."""
        yes: dict[str, set[Place]] = {kind: set() for kind in KINDS}
        no: dict[str, set[Place]] = {kind: set() for kind in KINDS}
        for name, positive in clause:
            kind, place = self.place(name)
            (yes if positive else no)[kind].add(place)
        pre, post = self.problem.collective.pre, self.problem.collective.post
        if not (
            # holders hold from the start and targets at the end; if some target is too far, anything follows
            any(rank in pre[k] or (step >= self.steps and rank in post[k]) for k, rank, step in yes["has"])
            or any(self._sent(place, yes, no["has"]) for place in no["send"])
            or any(self._held(place, yes) for place in no["has"])
            or (not clause and any(self.hops(k)[r] > self.steps for k, to in enumerate(post) for r in to))
        ):
            raise Refuted(f"the query asserts what does not follow from the problem: {shown(clause)}")

    def _sent(self, send: Place, yes: dict[str, set[Place]], lacks: set[Place]) -> bool:
        """Return True if a law of a transfer implies the clause: its sender holds, its receiver lacks before and
        holds after (eq. 2, 3), each has the other for a peer, and nobody sends before it can hold."""
        chunk, link, step = send
        arc = self.problem.arcs[link]
        return (
            (chunk, arc.dst, step) in lacks
            or not yes["has"].isdisjoint({(chunk, arc.src, step), (chunk, arc.dst, step + 1)})
            or not yes["met"].isdisjoint({(arc.src, arc.dst, 1), (arc.dst, arc.src, 0)})
            or not self._possible(chunk, link, step)
        )

    def _possible(self, chunk: int, link: int, step: int) -> bool:
        """Return True if the transfer can be part of a schedule at all."""
        arc = self.problem.arcs[link]
        early_enough = self.hops(chunk)[arc.src] <= step < self.steps
        return early_enough and arc.dst not in self.problem.collective.pre[chunk]

    def _held(self, has: Place, yes: dict[str, set[Place]]) -> bool:
        """Return True if eq. 3 implies the clause: what is held was held or has just arrived, and it stays."""
        chunk, rank, step = has
        first = self.hops(chunk)[rank]
        if first > step or (chunk, rank, step + 1) in yes["has"]:
            return True
        if step == 0 or (first < step and (chunk, rank, step - 1) not in yes["has"]):
            return False
        came = ((chunk, a, step - 1) for a in self.into[rank])
        return all(send in yes["send"] or not self._possible(*send) for send in came)

    def check_count(self, count: AtMost) -> None:
        """Raise Refuted unless a law implies ``count``: resource, receipt, exclusion (eq. 4-6, 8), peers."""
        sends = [self.place(name) for name in count.names]
        places = [place for _, place in sends]
        if len(places) <= count.limit:
            return
        if all(kind == "met" for kind, _ in sends):
            of_one = len({(rank, sending) for rank, _, sending in places}) == 1
            limit = self.problem.max_peers
            holds = of_one and limit is not None and count.limit >= limit
            demand(holds, "the query limits peers as nothing else does")
            return
        demand(all(kind == "send" for kind, _ in sends), "the query counts something that is not sent")
        step = places[0][2]
        demand(all(place[2] == step for place in places), "the query counts sends of different steps together")
        arcs = [self.problem.arcs[link] for _, link, _ in places]
        to_one = len({arc.dst for arc in arcs}) == 1  # eq. 6, and eq. 8 where the problem has it
        by_one = self.problem.exclusive_reduction and len({arc.src for arc in arcs}) == 1
        if count.limit >= 1 and len({chunk for chunk, _, _ in places}) == 1 and (to_one or by_one):
            return
        common = set.intersection(*(self.resources_of[link] for link in {place[1] for place in places}))
        least = min((self.problem.resources[r].capacity for r in common), default=NEVER)
        first = ", ".join(count.names[:3])
        demand(count.limit >= least, f"the query limits to {count.limit} what no law of the problem does: {first}")


def assertions(text: str) -> Iterator[Clause | AtMost]:
    """Yield the clauses and counts that ``text`` asserts, but for ``true``. Refuted where it has anything else."""
    declared: dict[str, Clause] = {}
    for command in _commands(text):
        match command:
            case ["declare-fun", str(name), [], "Bool"] | ["declare-const", str(name), "Bool"]:
                declared[name] = ((name, True),)
            case ["assert", formula]:
                stated = _stated(formula, declared)
                if stated is not None:
                    yield stated
            case [str(head), *_] if head in _IGNORED:
                pass
            case _:
                raise Refuted(f"the query has a command that is not rechecked: {str(command)[:40]}")


def _commands(text: str) -> Iterator[list[Tree]]:
    open_lists: list[list[Tree]] = []
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token[0] == ";":
            continue
        if token == "(":
            open_lists.append([])
            demand(len(open_lists) <= MAX_DEPTH, "the query is nested too deeply")
            continue
        demand(bool(open_lists), f"the query has {token[:40]!r} outside of a command")
        if token != ")":
            open_lists[-1].append(token)
        elif len(open_lists) > 1:
            closed = open_lists.pop()
            open_lists[-1].append(closed)
        else:
            yield open_lists.pop()
    demand(not open_lists, "the query ends in the middle of a command")


def _stated(tree: Tree, names: MutableMapping[str, Clause]) -> Clause | AtMost | None:
    """Return the clause or count that ``tree`` asserts; None: it is true. ``names``: the clause of each name."""
    while isinstance(tree, list) and len(tree) == 3 and tree[0] == "let":
        fresh: dict[str, Clause] = {}
        for pair in tree[1] if isinstance(tree[1], list) else [[]]:
            match pair:
                case [str(name), term]:
                    fresh[name] = _clause(term, names)
                case _:
                    raise Refuted("the query has a let that is not rechecked")
        names, tree = ChainMap(fresh, names), tree[2]
    match tree:
        case "true" if "true" not in names:
            return None
        case [["_", "at-most", str(limit)], *counted]:
            pass
        case [["_", "pble", str(limit), *weights], *counted] if weights == ["1"] * len(counted):
            pass
        case _:
            return _clause(tree, names)
    clauses = [_clause(term, names) for term in counted]
    single = all(len(clause) == 1 and clause[0][1] for clause in clauses)
    demand(single, "the query counts something that is not a variable")
    variables = tuple(clause[0][0] for clause in clauses)
    demand(len(set(variables)) == len(variables), "the query counts a variable twice")
    demand(is_count(limit), f"the query has a count of at most {limit[:40]}")
    return AtMost(variables, int(limit))


def _clause(tree: Tree, names: MutableMapping[str, Clause]) -> Clause:
    match tree:
        case "false":
            return ()
        case str(name):
            demand(name in names, f"the query does not declare {name}")
            return names[name]
        case ["not", inner]:
            literals = _clause(inner, names)
            demand(len(literals) == 1, "the query negates more than a variable")
            return ((literals[0][0], not literals[0][1]),)
        case ["or", *parts]:
            return tuple(literal for part in parts for literal in _clause(part, names))
        case ["=>", left, right]:
            return _clause(["not", left], names) + _clause(right, names)
    raise Refuted("the query has a formula that is neither a clause nor a count")
