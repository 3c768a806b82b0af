"""Every rule of the judges of MSCCL XML and of MSCCL++ plans: its id, and what to do about it; and findings.

Ids are stable: a rule that goes leaves a gap, a new one takes a new number. What each rule means stands in
docs/verify.md (XML, HX1xx to HX7xx) and docs/mscclpp.md (plans, HX8xx and HX9xx).
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from hetesynth.model.program import BufferSlice, Program
from hetesynth.model.verdict import Violation, ViolationKind

Stage = Literal["read", "crash", "run", "advice"]
"""The stage at which a defect shows: the reader refuses the file, the reader falls over, it fails later (when
selected, connected, launched or executed), or the runtimes do not mind."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a judge: ``name`` is what the code says; ``help`` what to do."""

    id: str
    name: str
    kind: ViolationKind
    stage: Stage
    help: str


# The loader of plans checks little, so most of their defects show when they run.
_TABLE = """
-- what a file of MSCCL XML may hold
HX101 empty-file syntax read | Write an <algo> element.
HX102 not-text syntax read | Give a text file.
HX103 byte-order-mark syntax read | Save without one.
HX104 not-ascii syntax advice | Write plain ASCII.
HX105 text-content syntax read | Remove it.
HX106 tab-between syntax read | Indent with blanks.
HX107 doctype syntax read | Remove it.
HX108 declaration syntax read | Remove it.
HX109 comment-equals syntax read | Put a blank after `<!--`.
HX110 open-comment syntax read | Close it with `-->`.
HX111 broken-tag syntax read | Close it with `>`.
HX112 broken-close syntax read | Write only the name.
HX113 no-attribute syntax read | Remove it, or put a blank before it.
HX114 blank-equals syntax read | Remove the blank.
HX115 single-quotes syntax read | Use double quotes.
HX116 newline-in-tag syntax read | Write each tag on one line.
HX117 tab-in-tag syntax read | Separate attributes by one blank.
HX118 less-than syntax read | Remove it.
HX119 entity syntax advice | Write the character itself.
HX120 attribute-twice syntax advice | Keep one of them.
HX121 long-value syntax run | Keep to 255 characters.
HX122 many-attributes syntax advice | Put one blank before each, needed ones first.
HX123 wrong-close syntax read | Close the innermost element.
HX124 never-closed syntax read | Is the file complete?
HX125 no-algo syntax read | Is it MSCCL XML?
HX126 wrong-root syntax crash | Use <algo> as the root.
HX127 second-root syntax advice | One schedule per file.
HX128 unknown-element attribute advice | Remove it.
HX129 too-large limit read | Is it the right file?
HX130 too-deep limit read | Is it MSCCL XML?
HX131 long-name syntax read | Keep to 254 characters.
-- its values
HX201 missing-attribute attribute read | Add it.
HX202 bad-integer attribute run | Write plain decimal.
HX203 odd-integer attribute advice | Write plain decimal.
HX204 unknown-op attribute read | Use s r cpy re nop rcs rrs rrc rrcs.
HX205 residual-add attribute read | Use `re`.
HX206 unknown-buffer attribute read | Use i, o or s, in nops too.
HX207 bad-hasdep attribute read | Write 1 on steps others wait for.
HX208 bad-mode attribute run | Write 0 or 1.
HX209 bad-peer attribute read | A rank, or -1 for none.
HX210 negative-channel attribute read | Use 0 even without peers.
HX211 negative-size attribute read | Write 0 for a buffer not used.
HX212 huge-size attribute run | Use fewer chunks.
HX213 bad-protocol attribute read | Exactly Simple, LL or LL128.
HX214 unknown-collective attribute read | See docs/verify.md.
HX215 collective-refused attribute read | Spell it as the target does.
HX216 collective-unchecked attribute advice | Nothing: only hangs and races are checked.
HX217 metadata-missing attribute read | Add it.
HX218 min-above-max attribute read | Swap them.
HX219 never-selected attribute run | Mend sizes and in-place flags, or use another target.
HX220 out-of-range attribute run | Use 1 or more.
HX221 no-channels attribute run | Highest channel in use, plus 1.
HX222 bad-root attribute run | Use 0 to ngpus-1.
HX223 root-unstated attribute advice | Add `root` to <algo>.
HX224 no-right-root attribute run | State the root to see why.
HX225 chunk-consistency attribute read | See nchunksperloop.
HX226 residual-add-run attribute run | Use `re`.
HX227 bad-nthreads attribute read | Remove it.
HX228 any-root attribute run | Install it only where all calls have that root.
HX229 in-place-ignored attribute run | Write it for calls out of place.
-- its limits
HX301 count-limit limit read | Split the step.
HX302 node-limit limit read | Use fewer steps.
HX303 step-number limit read | Split the thread block.
HX304 step-limit limit crash | Split the thread block.
HX305 thread-block-limit limit read | Merge thread blocks.
HX306 channel-limit limit read | Use fewer channels.
HX307 channel-overflow limit run | Use a lower one.
HX308 peer-limit limit read | Use more channels.
HX309 idle-peer-crash limit crash | Remove the idle ones.
HX310 idle-peer-overflow limit run | Remove the idle ones.
HX311 offset-limit limit run | Use fewer chunks.
HX312 depid-limit limit run | Give it a lower id.
HX313 child-limit limit crash | Split the element.
HX314 op-refused limit run | Receive into scratch, then cpy or re.
HX315 channels-limit limit run | Highest channel in use, plus 1.
HX316 co-residency limit run | Merge thread blocks.
HX317 channel-past-table limit read | Use a lower one.
HX318 channel-crash limit crash | Use a lower one, without peers too.
-- GPUs, connections, ranges
HX401 gpu-twice attribute run | One <gpu> per rank.
HX402 gpu-unknown attribute run | Use 0 to ngpus-1.
HX403 missing-gpu missing-gpu run | One <gpu> per rank.
HX404 not-divisible attribute run | One block per rank.
HX405 declared-size attribute run | See nchunksperloop.
HX406 block-twice attribute read | Number them from 0.
HX407 block-gap attribute read | Number them from 0.
HX408 peer-unknown connection run | Use 0 to ngpus-1.
HX409 peer-refused connection read | Use 0 to ngpus-1.
HX410 own-peer connection read | Use cpy.
HX411 channel-unconnected connection run | nchannels: highest channel, plus 1.
HX412 no-peer connection read | Set send or recv.
HX413 negative-count range read | Use 1 or more.
HX414 zero-count range run | Use 1 or more.
HX415 no-buffer range run | Name it.
HX416 offset-refused range read | Mend offset or size.
HX417 range range run | Mend offset, cnt or size.
HX418 duplicate-connection connection run | Use another channel.
HX419 unpaired-connection connection run | Add the other end.
HX420 message-count connection run | Pair every send.
HX421 message-size connection run | Use one cnt on both ends.
HX422 no-such-link no-such-link run | Send another way.
HX423 idle-connection connection advice | Set it to -1.
HX424 not-mirrored attribute advice | Repeat the sender's.
HX425 step-order attribute advice | Number steps from 0.
HX426 unused-channels attribute advice | nchannels: highest channel, plus 1.
-- dependences
HX501 negative-depid dependence run | -1 means none.
HX502 missing-block dependence run | Mend depid.
HX503 own-block dependence run | Steps are in order anyway.
HX504 missing-step dependence run | Mend deps.
HX505 never-published dependence run | Set hasdep=1 there.
HX506 nop-without-dependence dependence run | Remove it.
HX507 nop-last dependence run | Remove it.
HX508 nop-dependence-lost dependence read | Let it carry the last one.
HX509 published-later dependence advice | Set hasdep=1 there.
HX510 reduction-count wrong-data run | Use one cnt.
-- execution
HX601 deadlock deadlock run | Reorder steps, or use another channel.
HX602 split-deadlock deadlock run | Use cnt=1 there, or reorder.
HX603 race race run | Add a dependence.
HX604 overlap race run | Go through scratch.
HX605 undefined-data undefined-data run | Write it first.
HX606 split-race race run | Use cnt=1 there.
HX607 too-much-work limit run | Nothing is known of it; use fewer thread blocks.
HX608 network-steps deadlock run | Use LL or LL128, or one node.
-- data
HX701 root-only-buffer range run | Use scratch elsewhere.
HX702 input-overwritten wrong-data run | Use scratch or output.
HX703 different-chunks wrong-data run | Mend the offsets.
HX704 added-twice wrong-data run | Add each rank once.
HX705 final-data wrong-data run | Follow the chunk named.
-- plans: GPUs and thread blocks
HX801 plan-alignment attribute run | Use 16.
HX802 plan-threads limit run | Use 1024.
HX803 plan-min-above-max attribute run | Swap them.
HX804 plan-gpu-order attribute run | List the GPUs in order, from 0.
HX805 plan-no-chunks limit crash | Use at least 1 input and output chunk.
HX806 plan-semaphore-limit limit run | Use several operations.
HX807 plan-no-block limit run | Give it one, be it with a `nop`.
HX808 plan-peer connection run | Mend connected_to.
HX809 plan-memory-across-servers connection run | Use a port channel.
HX810 plan-remote-buffer connection run | Mend its rank.
HX811 plan-no-scratch range run | Set scratch_chunks there.
HX812 plan-block-order attribute run | List them in order, from 0.
HX813 plan-operation-limit limit run | Use more thread blocks.
HX814 plan-channel-limit limit run | Use more thread blocks.
HX815 plan-remote-limit limit run | Use more thread blocks.
HX816 plan-no-such-channel connection run | Mend channel_ids.
HX817 plan-no-such-remote connection run | Mend remote_buffer_ids.
HX818 plan-unpaired-channels connection run | Add the other end.
HX819 plan-no-such-link no-such-link run | Send another way.
HX820 plan-co-residency limit run | Use fewer thread blocks.
HX821 plan-size-range limit run | Lower max_message_size.
-- plans: operations
HX831 plan-slice-limit limit run | Use several operations.
HX832 plan-operation-channels limit run | Use several operations.
HX833 plan-channel-type connection run | Write memory or port.
HX834 plan-barrier-incomplete dependence run | Set barrier_id and num_threadblocks.
HX835 plan-barrier-limit limit run | Use 0 to 15.
HX836 plan-barrier-count dependence run | Mend num_threadblocks.
HX837 plan-barrier-unequal dependence run | Let each meet it equally often.
HX838 plan-no-semaphore dependence run | Set semaphore_ids.
HX839 plan-semaphore-range range run | Mend semaphore_ids.
HX840 plan-semaphore-twice dependence run | Use two operations.
HX841 plan-no-channel connection run | Set channel_ids.
HX842 plan-channel-twice connection run | Use two operations.
HX843 plan-port-only connection run | Use `put` and `signal`.
HX844 plan-memory-only connection run | Let the peer `put` into scratch.
HX845 plan-channel-each connection run | Name one each.
HX846 plan-slice-form range run | See docs/mscclpp.md.
HX847 plan-slice-count range run | Pair them.
HX848 plan-slice-size range run | Use one size.
HX849 plan-empty-slice range run | Use 1 or more.
HX850 plan-buffer-id range run | Mend buffer_id.
HX851 plan-other-peer connection run | Mend channel_ids or buffer_id.
HX852 plan-range range run | Mend index or size.
HX853 plan-get-exchanged wrong-data run | Use equal indices, or `put`.
HX854 plan-put-one-buffer wrong-data run | Use one `put` for each buffer.
HX855 plan-flush-count connection run | Name any chunk as dst_buff once for each channel.
HX856 plan-packets range run | Use protocol LL, and scratch for packets alone.
HX857 plan-double-scratch wrong-data run | Set use_double_scratch_buffer to false.
-- plans: the collective
HX861 plan-sizes attribute run | Mend input_chunks and output_chunks.
HX862 plan-bad-root attribute run | Give another --root.
HX863 plan-no-right-root attribute run | Give --root to see why.
HX864 plan-any-root attribute advice | Register a plan for every root, and a selector that looks at the root.
-- plans: execution and data
HX901 plan-deadlock deadlock run | Reorder operations, or add the signal.
HX902 plan-race race run | Add a signal and a wait, or a barrier.
HX903 plan-missing-nop race run | Put a `nop` between.
HX904 plan-channel-shared race run | Use a channel each, or a barrier.
HX905 plan-early-access race run | Wait for a signal from it first.
HX906 plan-late-access race run | Signal, wait and flush at the end.
HX907 plan-no-far-end connection run | Give both GPUs equally many channels.
HX908 plan-signals-left connection run | Add the wait.
HX909 plan-semaphore-left dependence run | Pair acquires and releases.
HX910 plan-packets-overwritten race run | Use a double scratch buffer, and hear from every receiver.
HX911 plan-undefined-data undefined-data run | Write it first.
HX912 plan-input-overwritten wrong-data run | Use scratch or output.
HX913 plan-different-chunks wrong-data run | Mend the indices.
HX914 plan-added-twice wrong-data run | Add each rank once.
HX915 plan-final-data wrong-data run | Follow the chunk named.
-- tables
HX951 table-sizes attribute run | Mend sizes.
HX952 table-root attribute run | Give another --root.
HX953 table-range range run | Mend the offset or the count.
HX954 table-operations limit run | Use several rounds.
HX955 table-link no-such-link run | Send another way.
HX956 table-race race run | Use another round, or another place.
HX957 table-undefined-data undefined-data run | Write it first.
HX958 table-input-overwritten wrong-data run | Use scratch or output.
HX959 table-different-chunks wrong-data run | Mend the offsets.
HX960 table-added-twice wrong-data run | Add each rank once.
HX961 table-final-data wrong-data run | Follow the chunk named.
"""


RULES = {
    name: Rule(number, name, cast(ViolationKind, kind), cast(Stage, stage), advice)
    for number, name, kind, stage, advice in re.findall(
        r"^(HX\d+) (\S+) (\S+) (\S+) \| (.*)$", _TABLE, re.MULTILINE
    )
}
BY_ID = {rule.id: rule for rule in RULES.values()}
MAX_FINDINGS = 50


@dataclass(frozen=True, slots=True)
class Place:
    """Positions, not ids: the ``gpu``-th GPU, its ``block``-th thread block, that one's ``step``-th step."""

    gpu: int
    block: int | None = None
    step: int | None = None


Lines = Mapping[tuple[int, int], list[int]]
"""(position of the GPU, position of the thread block) -> line of the block, then of each of its steps.
The position -1 for the thread block stands for the GPU itself."""


def located(rank: int | None, block: int | None = None, step: int | None = None) -> str:
    """``gpu 0 thread block 1 step 2``, as far as it is known."""
    parts = (("gpu", rank), ("thread block", block), ("step", step))
    return " ".join(f"{word} {number}" for word, number in parts if number is not None)


def violation(
    rule: str,
    message: str,
    line: int | None = None,
    rank: int | None = None,
    block: int | None = None,
    step: int | None = None,
) -> Violation:
    """The violation of the rule with this name; the place is put before ``message``."""
    kind, number, where = RULES[rule].kind, RULES[rule].id, located(rank, block, step)
    text = f"{where}: {message}" if where else message
    return Violation(kind, text, rank=rank, thread_block=block, step=step, line=line, rule=number)


class Findings:
    """Collects at most ``limit`` violations, and at most MAX_FINDINGS of each rule. ``context`` is put before each
    message. The ids of a plan are positions."""

    def __init__(self, limit: int = MAX_FINDINGS) -> None:
        self.limit = limit
        self.context = ""
        self.violations: list[Violation] = []
        self._counts: Counter[str] = Counter()

    @property
    def full(self) -> bool:
        """True if further findings are dropped."""
        return len(self.violations) >= self.limit

    def add(self, rule: str, message: str, place: Place | None = None) -> None:
        """Keeps the finding, unless there are enough already. ``rule``: a name in RULES."""
        rank, block, line = (None, None, None) if place is None else self.ids(place)
        self.keep(rule, self.context + message, line, rank, block, None if place is None else place.step)

    def keep(self, rule: str, message: str, *where: int | None) -> None:
        """Keep a finding as ``add`` does, for a place in ids: the line, the rank, the thread block, the step."""
        if not self.full and self._counts[rule] < MAX_FINDINGS:
            self._counts[rule] += 1
            self.violations.append(violation(rule, message, *where))

    def ids(self, place: Place) -> tuple[int, int | None, int | None]:
        """The rank, the id of the thread block, the line."""
        return place.gpu, place.block, None

    def where(self, place: Place) -> str:
        """Return the place in words, with its ids."""
        return located(*self.ids(place)[:2], place.step)


class ProgramFindings(Findings):
    """Findings about a program, in the file's own ids."""

    def __init__(self, program: Program, lines: Lines, limit: int = MAX_FINDINGS) -> None:
        super().__init__(limit)
        self.program, self.lines = program, lines

    def ids(self, place: Place) -> tuple[int, int | None, int | None]:
        """The rank, the id of the thread block, the line where it stands in the file."""
        gpu = self.program.gpus[place.gpu]
        block = None if place.block is None else gpu.thread_blocks[place.block].id
        lines = self.lines.get((place.gpu, -1 if place.block is None else place.block))
        line = None if lines is None else lines[0 if place.step is None else place.step + 1]
        return gpu.rank, block, line


def shown(part: BufferSlice, count: int = 1) -> str:
    """Return a slice in words: ``o[3]`` or ``o[3..5]``."""
    last = part.offset + count - 1
    return f"{part.buffer}[{part.offset}]" if last <= part.offset else f"{part.buffer}[{part.offset}..{last}]"
