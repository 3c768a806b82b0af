"""Buffers of an MSCCL++ plan: sizes the collective asks for, aliasing, contents at the start and at the end.

In: a plan and a root. Out: cells (one per chunk of memory of one GPU) and values. Knows nothing of operations.

In place means what NCCL calls in place. A remote buffer is found by the offset that the *own* buffer has in its
allocation: out of place all offsets are taken as equal, but in place the input of an allgather (and the output
of a reducescatter) begins elsewhere on every rank, so a peer's is missed by the difference. ``cell`` does as the
runtime.
"""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.model.plan import Plan
from hetesynth.model.program import Buffer
from hetesynth.model.topology import Rank
from hetesynth.verify.msccl.layout import COLLECTIVES, Value

_IN_FRONT = frozenset({"allgather", "gather"})  # in place the input is the own block of the output
_BEHIND = frozenset({"reducescatter", "scatter"})  # in place the output is the own block of the input


@dataclass(frozen=True, slots=True)
class PlanLayout:
    """One plan with its ``block``: the chunks of one rank's share, and the root where there is one."""

    plan: Plan
    block: int
    root: Rank | None

    def cell(self, owner: Rank, seen_from: Rank, buffer: Buffer, index: int) -> int:
        """The memory of ``owner`` that ``seen_from`` means by a chunk of the owner's ``buffer``."""
        gpu, name = self.plan.gpus[owner], self.plan.collective
        inputs, outputs = gpu.input_chunks, gpu.output_chunks
        if not self.plan.in_place:
            return {"i": 0, "o": inputs, "s": inputs + outputs}[buffer] + index
        if buffer == "s":
            return (inputs + outputs) * (self.plan.ranks + 1) + index
        shift = seen_from * self.block
        if (name in _IN_FRONT and buffer == "i") or (name in _BEHIND and buffer == "o"):
            return shift + index
        return index

    def initial(self, owner: Rank, cell: int) -> Value | None:
        """What a cell holds before the first operation; None: undefined."""
        name, gpu = self.plan.collective, self.plan.gpus[owner]
        if name in ("broadcast", "scatter") and owner != self.root:
            return None
        chunk = cell - self.cell(owner, owner, "i", 0)
        return (chunk, 1 << owner) if 0 <= chunk < gpu.input_chunks else None

    def expected(self, owner: Rank, chunk: int) -> Value | None:
        """What output chunk ``chunk`` must hold in the end; None: anything."""
        name, root, ranks = self.plan.collective, self.root, self.plan.ranks
        everyone = (1 << ranks) - 1
        source, part = divmod(chunk, self.block)
        match name:
            case "allgather":
                return part, 1 << source
            case "gather":
                return (part, 1 << source) if owner == root else None
            case "alltoall":
                return owner * self.block + part, 1 << source
            case "allreduce":
                return chunk, everyone
            case "reduce":
                return (chunk, everyone) if owner == root else None
            case "reducescatter":
                return owner * self.block + chunk, everyone
            case "broadcast" if root is not None:
                return chunk, 1 << root
            case "scatter" if root is not None:
                return owner * self.block + chunk, 1 << root
        return None


def sizes_fit(plan: Plan, root: Rank | None) -> int | str:
    """The chunks of one rank's share when the declared sizes are those of the collective, else what is wrong."""
    name, ranks = plan.collective, plan.ranks
    if name not in COLLECTIVES:
        return f"there is no collective {name[:40]!r}"
    inputs = [gpu.input_chunks for gpu in plan.gpus]
    outputs = [gpu.output_chunks for gpu in plan.gpus]
    whole = "input_chunks and output_chunks must be the same on every rank"
    if name in ("gather", "scatter"):
        shares, large = (inputs, outputs) if name == "gather" else (outputs, inputs)
        at = 0 if root is None else root
        if len(set(shares)) > 1:
            return "every rank's own block must have the same number of chunks"
        if large[at] != ranks * shares[0]:
            return f"the root's buffer has {large[at]} chunks, not {ranks} blocks of {shares[0]}"
        return shares[0]
    if len(set(inputs)) > 1 or len(set(outputs)) > 1:
        return whole
    i, o = inputs[0], outputs[0]
    if name == "allgather":
        return i if o == ranks * i else f"output_chunks is {o}, not {ranks} times input_chunks, {i}"
    if name == "reducescatter":
        return o if i == ranks * o else f"input_chunks is {i}, not {ranks} times output_chunks, {o}"
    if i != o:
        return f"input_chunks is {i} but output_chunks {o}: {name} has equal buffers"
    if name == "alltoall":
        return i // ranks if i % ranks == 0 else f"input_chunks is {i}, no multiple of the {ranks} ranks"
    return i
