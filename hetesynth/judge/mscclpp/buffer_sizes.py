"""Whether the buffers that a plan declares are those of its collective, and the layout that follows.

In: a plan and a root. Out: the layout, or what is wrong with the sizes. Knows nothing of operations.
"""

from __future__ import annotations

from hetesynth.judge.layout import COLLECTIVES, Layout
from hetesynth.model.plan import Plan
from hetesynth.model.topology import Rank


def plan_layout(plan: Plan, root: Rank | None) -> Layout | str:
    """The buffers of ``plan``, or what is wrong with their sizes."""
    inputs = [gpu.input_chunks for gpu in plan.gpus]
    outputs = [gpu.output_chunks for gpu in plan.gpus]
    block = _block(plan, root, inputs, outputs)
    if isinstance(block, str):
        return block
    return Layout(plan.collective, plan.in_place, root, inputs, outputs, block)


def _block(plan: Plan, root: Rank | None, inputs: list[int], outputs: list[int]) -> int | str:
    """The chunks of one rank's share when the declared sizes are those of the collective, else what is wrong."""
    name, ranks = plan.collective, plan.ranks
    if name not in COLLECTIVES:
        return f"there is no collective {name[:40]!r}"
    if name in ("gather", "scatter"):
        shares, large = (inputs, outputs) if name == "gather" else (outputs, inputs)
        at = 0 if root is None else root
        if len(set(shares)) > 1:
            return "every rank's own block must have the same number of chunks"
        if large[at] != ranks * shares[0]:
            return f"the root's buffer has {large[at]} chunks, not {ranks} blocks of {shares[0]}"
        return shares[0]
    if len(set(inputs)) > 1 or len(set(outputs)) > 1:
        return "input_chunks and output_chunks must be the same on every rank"
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
