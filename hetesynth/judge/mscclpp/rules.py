"""Every rule of the judge of MSCCL++ plans: its id, what is wrong with a plan, and what to do about it; findings.

Ids are stable and go on where those for MSCCL XML (``msccl/rules``) end: HX8xx what shows without running, HX9xx
execution and data.

The runtime's loader checks little, so most defects show when the plan runs; where the loader itself crashes, the
stage is crash.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hetesynth.judge.msccl.rules import BY_ID, MAX_FINDINGS, read_rules
from hetesynth.model.verdict import Violation

_TABLE = """
-- the plan, GPUs and thread blocks
HX801 plan-alignment attribute run | buffer_alignment is no multiple of 16. | Use 16.
HX802 plan-threads limit run | num_threads_per_block is not 1 to 1024, or fewer than an operation needs. |
    Use 1024.
HX803 plan-min-above-max attribute run | min_message_size exceeds max_message_size. | Swap them.
HX804 plan-gpu-order attribute run | A GPU's id is not its position. | List the GPUs in order, from 0.
HX805 plan-no-chunks limit crash | A buffer has no chunk: the loader divides by them. |
    Use at least 1 input and output chunk.
HX806 plan-semaphore-limit limit run | An operation names more semaphores than the kernel. |
    Use several operations.
HX807 plan-no-block limit run | A GPU has no thread block. | Give it one, be it with a `nop`.
HX808 plan-peer connection run | A channel leads to no other GPU. | Mend connected_to.
HX809 plan-memory-across-servers connection run | A memory channel leaves the server. | Use a port channel.
HX810 plan-remote-buffer connection run | A remote buffer is of no other GPU. | Mend its rank.
HX811 plan-no-scratch range run | A remote buffer is scratch where there is none. | Set scratch_chunks there.
HX812 plan-block-order attribute run | A thread block's id is not its position. | List them in order, from 0.
HX813 plan-operation-limit limit run | A thread block has more operations than the kernel. |
    Use more thread blocks.
HX814 plan-channel-limit limit run | A thread block has more channels of a type than the kernel. |
    Use more thread blocks.
HX815 plan-remote-limit limit run | A thread block has more remote buffers of a type than the kernel. |
    Use more thread blocks.
HX816 plan-no-such-channel connection run | A channel that does not exist is named. | Mend channel_ids.
HX817 plan-no-such-remote connection run | A remote buffer that does not exist is named. | Mend remote_buffer_ids.
HX818 plan-unpaired-channels connection run | A GPU has channels to another that has none back. |
    Add the other end.
HX819 plan-no-such-link no-such-link run | Data goes where the topology has no link. | Send another way.
HX820 plan-co-residency limit run | Thread blocks that wait for each other do not fit on the GPU. |
    Use fewer thread blocks.
HX821 plan-size-range limit run |
    The sizes allowed lead to a buffer of 4 GiB or more, past the runtime's 32-bit offsets. |
    Lower max_message_size.
-- operations
HX831 plan-slice-limit limit run | An operation has more slices than the kernel. | Use several operations.
HX832 plan-operation-channels limit run | An operation has more channels than the kernel. | Use several operations.
HX833 plan-channel-type connection run | An operation lacks its channel_type. | Write memory or port.
HX834 plan-barrier-incomplete dependence run | A barrier lacks its number or its size. |
    Set barrier_id and num_threadblocks.
HX835 plan-barrier-limit limit run | The kernel has no such barrier. | Use 0 to 15.
HX836 plan-barrier-count dependence run | A barrier does not count those that meet there. | Mend num_threadblocks.
HX837 plan-barrier-unequal dependence run | Thread blocks meet a barrier unequally often. |
    Let each meet it equally often.
HX838 plan-no-semaphore dependence run | A semaphore operation names none. | Set semaphore_ids.
HX839 plan-semaphore-range range run | The GPU has no such semaphore. | Mend semaphore_ids.
HX840 plan-semaphore-twice dependence run | An operation names a semaphore twice. | Use two operations.
HX841 plan-no-channel connection run | A signal, wait or flush names no channel. | Set channel_ids.
HX842 plan-channel-twice connection run | An operation names a channel twice. | Use two operations.
HX843 plan-port-only connection run | The operation needs a port channel. | Use `put` and `signal`.
HX844 plan-memory-only connection run | The operation needs a memory channel. | Let the peer `put` into scratch.
HX845 plan-channel-each connection run | A put over ports has not one channel for each slice. | Name one each.
HX846 plan-slice-form range run | The operation does not take slices like these. | See docs/mscclpp.md.
HX847 plan-slice-count range run | An operation has not as many sources as targets. | Pair them.
HX848 plan-slice-size range run | Slices of one operation differ in size. | Use one size.
HX849 plan-empty-slice range run | A slice of no chunks. | Use 1 or more.
HX850 plan-buffer-id range run | The thread block has no such remote buffer. | Mend buffer_id.
HX851 plan-other-peer connection run | A put's channels do not lead to the GPU of its target. |
    Mend channel_ids or buffer_id.
HX852 plan-range range run | Chunks outside the buffer are touched. | Mend index or size.
HX853 plan-get-exchanged wrong-data run | The runtime exchanges the offsets of `get`. |
    Use equal indices, or `put`.
HX854 plan-put-one-buffer wrong-data run | The runtime takes all sources of a `put` from one buffer. |
    Use one `put` for each buffer.
HX855 plan-flush-count connection run | A flush has not one dst_buff for each channel: the runtime counts those. |
    Name any chunk as dst_buff once for each channel.
-- the collective
HX861 plan-sizes attribute run | The buffers' sizes are not the collective's. |
    Mend input_chunks and output_chunks.
HX862 plan-bad-root attribute run | The root is no rank. | Give another --root.
HX863 plan-no-right-root attribute run | The plan is right for no root. | Give --root to see why.
HX864 plan-any-root attribute advice | The built-in selector runs the plan for any root. |
    Register a plan for every root and a selector that looks at request.hints["root"].
-- execution
HX901 plan-deadlock deadlock run | Thread blocks wait for ever. | Reorder operations, or add the signal.
HX902 plan-race race run | Two accesses to one chunk that nothing orders. | Add a signal and a wait, or a barrier.
HX903 plan-missing-nop race run | Threads of one block are not ordered among operations. | Put a `nop` between.
HX904 plan-channel-shared race run | Thread blocks use one channel at once. | Use a channel each, or a barrier.
HX905 plan-early-access race run | A peer is touched before its kernel may run. | Wait for a signal from it first.
HX906 plan-late-access race run | A peer is touched after its kernel may have ended. |
    Signal, wait and flush at the end.
HX907 plan-no-far-end connection run | A signal on a channel without a far end. |
    Give both GPUs equally many channels.
HX908 plan-signals-left connection run | Signals that nobody waits for. | Add the wait.
HX909 plan-semaphore-left dependence run | A semaphore does not end as it began. | Pair acquires and releases.
HX911 plan-undefined-data undefined-data run | It reads what nothing has written. | Write it first.
HX912 plan-input-overwritten wrong-data run | The input changes out of place. | Use scratch or output.
HX913 plan-different-chunks wrong-data run | Different chunks are added. | Mend the indices.
HX914 plan-added-twice wrong-data run | A contribution is added twice. | Add each rank once.
HX915 plan-final-data wrong-data run | The result is wrong. | Follow the chunk named.
"""

PLAN_RULES = read_rules(_TABLE)
ALL_BY_ID = {**BY_ID, **{rule.id: rule for rule in PLAN_RULES.values()}}
"""The rules for MSCCL XML and those for plans."""


@dataclass(frozen=True, slots=True)
class PlanPlace:
    """Positions: the GPU, its thread block, that one's operation."""

    gpu: int
    block: int | None = None
    operation: int | None = None

    def __str__(self) -> str:
        text = f"gpu {self.gpu}"
        if self.block is not None:
            text += f" thread block {self.block}"
        return text if self.operation is None else f"{text} operation {self.operation}"


@dataclass(slots=True)
class PlanFindings:
    """Collects at most ``limit`` violations."""

    limit: int = MAX_FINDINGS
    violations: list[Violation] = field(default_factory=list)

    @property
    def full(self) -> bool:
        """Whether further findings are dropped."""
        return len(self.violations) >= self.limit

    def add(self, rule: str, message: str, place: PlanPlace | None = None) -> None:
        """Keeps the finding, unless there are enough already. ``rule``: a name in PLAN_RULES."""
        if self.full:
            return
        kind, number = PLAN_RULES[rule].kind, PLAN_RULES[rule].id
        if place is None:
            self.violations.append(Violation(kind, message, rule=number))
            return
        gpu, block, step, text = place.gpu, place.block, place.operation, f"{place}: {message}"
        self.violations.append(Violation(kind, text, step=step, rank=gpu, thread_block=block, rule=number))
