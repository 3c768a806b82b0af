"""Collectives by tables, with the signatures of torch.distributed; what no table is for goes to the backend.

What decides is the same on all ranks: the tables (their digest is compared at the first call on a group) and the
call (compared before its first bytes move). So either all use a table or none does.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from hetesynth.errors import HetesynthError
from hetesynth.execute.memory import PER_RANK
from hetesynth.model.collective import COLLECTIVES, CollectiveName
from hetesynth.model.table import Table
from hetesynth.runtimes.folder import load_tables, table_for
from hetesynth.runtimes.torch.executor import ADDS, TAG, play
from hetesynth.runtimes.torch.groups import Group, Plan, ranks_named
from hetesynth.runtimes.torch.handles import Handle
from hetesynth.runtimes.torch.steps import part_of

SUM = dist.ReduceOp.SUM
_ALL_GATHER = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)  # the name since torch 2.13
_REDUCE_SCATTER = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
_ADDED = frozenset(
    getattr(torch, name)
    for name in ("float16", "bfloat16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64")
)


def load(path: str | Path, *, always: bool = False, check: bool = False, judge: bool = True) -> "Collective":
    """Return collectives by the judged tables in a file or below a folder. ``always``: for all sizes of calls.
    ``check``: compare the ranks' arguments before every call, not only before the first of its kind.

    HetesynthError: HS533 and HS540 (a file), HS809 (a wrong table), HS816 (no table).
    """
    return Collective(load_tables(Path(path), "torch", judge=judge), always=always, check=check)


class Collective:
    """Collectives by ``tables``. The calls are those of torch.distributed. ``stats``: calls by table (``"table"``)
    and by the backend, by the reason."""

    def __init__(self, tables: Sequence[Table], *, always: bool = False, check: bool = False) -> None:
        self._tables = sorted(tables, key=lambda table: (table.min_bytes, table.max_bytes, table.name))
        self._always, self._check = always, check
        told = repr((self._tables, always, check, TAG)).encode()
        self._digest = int.from_bytes(hashlib.sha256(told).digest()[:7], "big")
        self._groups: dict[Any, Group] = {}
        self.stats: Counter[str] = Counter()

    def all_reduce(self, tensor: Any, op: Any = SUM, group: Any = None, async_op: bool = False) -> Any:
        """Do what ``torch.distributed.all_reduce`` does, AVG of floats too."""
        state, (op, kind, average) = self._group(group), _reduction(op, tensor)
        own = lambda part, later: dist.all_reduce(part, op, state.group, later)  # noqa: E731
        return self._flat(state, "allreduce", tensor, None, kind, async_op, own, average)

    def broadcast(self, tensor: Any, src: int, group: Any = None, async_op: bool = False) -> Any:
        """Do what ``torch.distributed.broadcast`` does; ``src`` is a rank of the world."""
        state = self._group(group)
        own = lambda part, later: dist.broadcast(part, src, state.group, later)  # noqa: E731
        return self._flat(state, "broadcast", tensor, _place(state, src), SUM, async_op, own)

    def reduce(self, tensor: Any, dst: int, op: Any = SUM, group: Any = None, async_op: bool = False) -> Any:
        """Do what ``torch.distributed.reduce`` does; ``dst`` is a rank of the world."""
        state, (op, kind, average) = self._group(group), _reduction(op, tensor)
        own = lambda part, later: dist.reduce(part, dst, op, state.group, later)  # noqa: E731
        root = _place(state, dst)
        return self._flat(state, "reduce", tensor, root, kind, async_op, own, average and root == state.rank)

    def all_gather_into_tensor(
        self, output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
    ) -> Any:
        """Do what ``torch.distributed.all_gather_into_tensor`` does, in place too."""
        state = self._group(group)
        own = partial(_ALL_GATHER, output_tensor, input_tensor, state.group)
        return self._apart(state, "allgather", input_tensor, output_tensor, SUM, async_op, own)

    def reduce_scatter_tensor(
        self, output: Any, input: Any, op: Any = SUM, group: Any = None, async_op: bool = False
    ) -> Any:
        """Do what ``torch.distributed.reduce_scatter_tensor`` does, in place too; AVG of floats."""
        state, (op, kind, average) = self._group(group), _reduction(op, input)
        own = partial(_REDUCE_SCATTER, output, input, op, state.group)
        return self._apart(state, "reducescatter", input, output, kind, async_op, own, average)

    def all_to_all_single(
        self,
        output: Any,
        input: Any,
        output_split_sizes: Any = None,
        input_split_sizes: Any = None,
        group: Any = None,
        async_op: bool = False,
    ) -> Any:
        """Do what ``torch.distributed.all_to_all_single`` does; split sizes are for the backend."""
        state = self._group(group)
        own = partial(dist.all_to_all_single, output, input, output_split_sizes, input_split_sizes, state.group)
        if output_split_sizes or input_split_sizes:
            self.stats["split sizes"] += 1
            return own(async_op)
        return self._apart(state, "alltoall", input, output, SUM, async_op, own)

    all_gather_single, reduce_scatter_single = all_gather_into_tensor, reduce_scatter_tensor

    def gather(
        self, tensor: Any, gather_list: Any = None, dst: int = 0, group: Any = None, async_op: bool = False
    ) -> Any:
        """Do what ``torch.distributed.gather`` does; ``dst`` is a rank of the world."""
        state = self._group(group)
        own = partial(dist.gather, tensor, gather_list, dst, state.group)
        return self._listed(state, "gather", tensor, gather_list, _place(state, dst), async_op, own)

    def scatter(
        self, tensor: Any, scatter_list: Any = None, src: int = 0, group: Any = None, async_op: bool = False
    ) -> Any:
        """Do what ``torch.distributed.scatter`` does; ``src`` is a rank of the world."""
        state = self._group(group)
        own = partial(dist.scatter, tensor, scatter_list, src, state.group)
        return self._listed(state, "scatter", tensor, scatter_list, _place(state, src), async_op, own)

    def _group(self, group: Any) -> Group:
        group = dist.group.WORLD if group is None else group
        state = self._groups.get(group)
        if state is None:
            state = Group(group)
            if self._tables and not any(table.ranks == state.size for table in self._tables):
                numbers = ", ".join(map(str, sorted({table.ranks for table in self._tables})))
                text = f"the group has {state.size} ranks, the tables are for {numbers}"
                raise HetesynthError(text, code="HS816", help="give a group of that size, or make tables for it")
            self._groups[group] = state
        return state

    def _flat(
        self,
        state: Group,
        name: CollectiveName,
        tensor: Any,
        root: int | None,
        op: Any,
        later: bool,
        own: Callable[[Any, bool], Any],
        average: bool = False,
    ) -> Any:
        """Run a call on one tensor, in place; elements left over when it is cut into chunks go by the backend."""
        flat = _flat(tensor)
        plan = self._plan(state, name, root, op, flat, flat.numel())
        after = partial(flat.div_, state.size) if average else None
        if plan.part is None:
            return _then(own(tensor, later), after, flat if later else None)
        whole = max(plan.part.sizes[:2]) * plan.chunk
        works = [own(flat[whole:], True)] if whole < flat.numel() else []
        return self._played(state, plan, (flat[:whole], flat[:whole]), later, works, after)

    def _apart(
        self,
        state: Group,
        name: CollectiveName,
        input: Any,
        output: Any,
        op: Any,
        later: bool,
        own: Callable[[bool], Any],
        average: bool = False,
    ) -> Any:
        """Run a call on two tensors: the smaller has a block of the larger unless both have all blocks."""
        a, b = _flat(input), _flat(output)
        exchange = COLLECTIVES[name].exchange
        small, large = sorted((a.numel(), b.numel()))
        if large != small * (1 if exchange else state.size) or large % state.size or a.dtype != b.dtype:
            raise ValueError(f"{name}: {a.numel()} and {b.numel()} elements do not fit {state.size} ranks")
        plan = self._plan(state, name, None, op, a, large // state.size)
        after = partial(b.div_, state.size) if average else None
        if plan.part is None:
            return _then(own(later), after, b if later else None)
        return self._played(state, plan, (a, b), later, [], after)

    def _listed(
        self, state: Group, name: CollectiveName, tensor: Any, tensors: Any, root: int, later: bool, own: Any
    ) -> Any:
        """Run a gather or a scatter: the list at the root goes by one buffer."""
        flat = _flat(tensor)
        plan = self._plan(state, name, root, SUM, flat, flat.numel())
        if plan.part is None:
            return own(later)
        if state.rank != root:
            buffers = (flat, flat[:0]) if name == "gather" else (flat[:0], flat)
            return self._played(state, plan, buffers, later, [], None)
        stage = state.memory("stage", flat, flat.numel() * state.size)
        parts = stage.view(state.size, -1).unbind()

        def copied(pairs: Iterable[tuple[Any, Any]]) -> None:
            for to, source in pairs:
                to.copy_(source.detach().reshape(-1))

        if name == "gather":
            flats = [_flat(one) for one in tensors]
            after = partial(copied, [*zip(flats, parts, strict=True)])
            return self._played(state, plan, (flat, stage), later, [], after)
        before = partial(copied, [*zip(parts, tensors, strict=True)])
        return self._played(state, plan, (stage, flat), later, [], None, before)

    def _plan(self, state: Group, name: CollectiveName, root: int | None, op: Any, like: Any, block: int) -> Plan:
        """Return the plan of calls of ``block`` elements a rank; at the first of a kind all ranks agree on it."""
        key = name, root, op, block, like.dtype, like.device
        plan = state.plans.get(key)
        if plan is None or self._check:
            if not state.met:
                state.meet(self._digest, self._pairs(state.size), like.device)
            told = f"{name} of {block} elements of {like.dtype}, root {root}, {op}"
            numbers = [int.from_bytes(hashlib.sha256(told.encode()).digest()[:7], "big"), block]
            calls = state.gathered(numbers, like.device)
            others = [rank for rank, call in enumerate(calls) if call != numbers]
            if others:
                other = f"another call, of {calls[others[0]][1]}: {ranks_named(others)}"
                text = f"rank {state.rank} calls {told}; {other}"
                raise HetesynthError(text, code="HS818", help="all ranks make the same calls", exit_code=1)
            if len(state.plans) == 1000:  # of calls of ever new sizes: the oldest, which is the same on all ranks
                del state.plans[next(iter(state.plans))]
            state.plans[key] = plan = plan or self._planned(state, name, root, op, like, block)
        self.stats["table" if plan.part is not None else plan.reason] += 1
        return plan

    def _pairs(self, ranks: int) -> set[tuple[int, int]]:
        tables = (table for table in self._tables if table.ranks == ranks)
        return {(m.src, m.dst) for table in tables for messages in table.rounds for m in messages}

    def _planned(
        self, state: Group, name: CollectiveName, root: int | None, op: Any, like: Any, block: int
    ) -> Plan:
        kind = COLLECTIVES[name]
        add = ADDS.get(op)
        if add is None or (kind.reduces and like.dtype not in _ADDED):
            return Plan(None, f"{op} of {like.dtype}")
        blocks = state.size if name in PER_RANK else 1
        size = block * blocks * like.element_size()
        table = table_for(self._tables, name, root, state.size, size, always=self._always)
        if isinstance(table, str):
            return Plan(None, table)
        chunks = table.chunks // blocks
        left = block % chunks
        if block < chunks or (left and blocks > 1):
            return Plan(None, f"not cut into {chunks} chunks")
        part = state.parts.get(id(table)) or part_of(table, state.rank)
        state.parts[id(table)] = part
        return Plan(part, "", block // chunks, add)

    def _played(
        self,
        state: Group,
        plan: Plan,
        buffers: tuple[Any, Any],
        later: bool,
        works: list[Any],
        after: Callable[[], object] | None,
        before: Callable[[], object] | None = None,
    ) -> Any:
        """Run a call by a table. ``works``: of the backend. ``before``: run first, ``after``: on the result."""

        def call() -> None:
            assert plan.part is not None and plan.add is not None
            if before is not None:
                before()
            scratch = state.memory("scratch", buffers[0], plan.part.sizes[2] * plan.chunk)
            play(plan.part, state.group, (*buffers, scratch), plan.chunk, plan.add)
            for work in works:
                work.wait()
            if after is not None:
                after()

        if later and buffers[0].device.type == "cpu":
            return Handle(buffers[1], state.worker.start(call))
        state.worker.run(call)
        return _ended(buffers[1]) if later else None


def _reduction(op: Any, tensor: Any) -> tuple[Any, Any, bool]:
    """Return the backend's operation, its kind, and True if the result is to be divided by the number of ranks."""
    kind = getattr(op, "op", op)
    if kind == dist.ReduceOp.AVG and tensor.dtype.is_floating_point:
        return SUM, SUM, True
    return op, kind, False


def _flat(tensor: Any) -> Any:
    if not tensor.is_contiguous():
        raise ValueError("the tensor is not contiguous")
    return tensor.detach().view(-1)


def _place(state: Group, rank: int) -> int:
    place: int = dist.get_group_rank(state.group, rank)
    return place


def _then(work: Any, after: Callable[[], object] | None, later: Any) -> Any:
    """Return the backend's result after ``after``; ``later``: the tensor of a call that is not waited for."""
    if after is None:
        return work
    if later is not None:
        work.wait()
    after()
    return None if later is None else _ended(later)


def _ended(tensor: Any) -> Handle:
    """Return the handle of a call whose work is done, or all on the current stream."""
    if tensor.device.type == "cpu":
        return Handle(tensor)
    module = getattr(torch, tensor.device.type)
    event = module.Event()
    event.record(module.current_stream(tensor.device))
    return Handle(tensor, event=event)
