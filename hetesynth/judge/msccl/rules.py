"""Every rule of the second judge: its id, what it means for a runtime, and what to do about it; and its findings.

Ids are stable: a rule that goes leaves a gap, a new one takes a new number. HX1xx what a file may hold, HX2xx
values, HX3xx limits, HX4xx GPUs, connections and ranges, HX5xx dependences, HX6xx execution, HX7xx data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from hetesynth.model.program import BufferSlice, Program
from hetesynth.model.verdict import Violation, ViolationKind

Stage = Literal["read", "crash", "run", "advice"]
"""When it shows: the reader refuses the file, the reader falls over, it fails later (when selected, connected,
launched or executed), or the runtimes do not mind."""


@dataclass(frozen=True, slots=True)
class Rule:
    """``name`` is what the code says; ``summary`` one line on what is wrong; ``help`` what to do."""

    id: str
    name: str
    kind: ViolationKind
    stage: Stage
    summary: str
    help: str


_TABLE = """
-- what a file may hold
HX101 empty-file syntax read | The file is empty. | Write an <algo> element.
HX102 not-text syntax read | The file holds control bytes. | Give a text file.
HX103 byte-order-mark syntax read | A byte order mark comes first. | Save without one.
HX104 not-ascii syntax advice | The file holds bytes that are not ASCII. | Write plain ASCII.
HX105 text-content syntax read | Text stands between elements. | Remove it.
HX106 tab-between syntax read | A tab stands between elements. | Indent with blanks.
HX107 doctype syntax read | A DOCTYPE or other `<!` declaration. | Remove it.
HX108 declaration syntax read | An XML declaration or processing instruction. | Remove it.
HX109 comment-equals syntax read | A comment's first word holds `=`. | Put a blank after `<!--`.
HX110 open-comment syntax read | A comment is not closed. | Close it with `-->`.
HX111 broken-tag syntax read | A tag is broken or never closed. | Close it with `>`.
HX112 broken-close syntax read | A closing tag is no `</name>`. | Write only the name.
HX113 no-attribute syntax read | Something in a tag is not name="value". | Remove it, or put a blank before it.
HX114 blank-equals syntax read | A blank stands beside `=`. | Remove the blank.
HX115 single-quotes syntax read | A value stands in single quotes. | Use double quotes.
HX116 newline-in-tag syntax read | A line ends inside a tag. | Write each tag on one line.
HX117 tab-in-tag syntax read | A tab stands inside a tag. | Separate attributes by one blank.
HX118 less-than syntax read | `<` stands inside a value. | Remove it.
HX119 entity syntax advice | Entities are not decoded. | Write the character itself.
HX120 attribute-twice syntax advice | An attribute stands twice. | Keep one of them.
HX121 long-value syntax run | A value overflows the reader's memory. | Keep to 255 characters.
HX122 many-attributes syntax advice | Readers keep 16 attributes, further blanks counted. |
    Put one blank before each, needed ones first.
HX123 wrong-close syntax read | A closing tag does not match. | Close the innermost element.
HX124 never-closed syntax read | An element is never closed. | Is the file complete?
HX125 no-algo syntax read | There is no <algo> element. | Is it MSCCL XML?
HX126 wrong-root syntax crash | The root is not <algo>: readers crash. | Use <algo> as the root.
HX127 second-root syntax advice | A second root element follows: readers take the first <algo>. |
    One schedule per file.
HX128 unknown-element attribute advice | An element is ignored: not executed. | Remove it.
HX129 too-large limit read | The file is larger than is read here. | Is it the right file?
HX130 too-deep limit read | More elements or deeper than is read here. | Is it MSCCL XML?
HX131 long-name syntax read | A name is longer than readers take. | Keep to 254 characters.
-- values
HX201 missing-attribute attribute read | An attribute that all readers demand is missing. | Add it.
HX202 bad-integer attribute run | A value is no integer; readers take another. | Write plain decimal.
HX203 odd-integer attribute advice | Octal, hexadecimal or signed. | Write plain decimal.
HX204 unknown-op attribute read | No such instruction. | Use s r cpy re nop rcs rrs rrc rrcs.
HX205 residual-add attribute read | `ra` is no instruction here. | Use `re`.
HX206 unknown-buffer attribute read | No such buffer. | Use i, o or s, in nops too.
HX207 bad-hasdep attribute read | hasdep is neither 0 nor 1. | Write 1 on steps others wait for.
HX208 bad-mode attribute run | inplace or outofplace is neither 0 nor 1. | Write 0 or 1.
HX209 bad-peer attribute read | A peer below -1. | A rank, or -1 for none.
HX210 negative-channel attribute read | A negative channel. | Use 0 even without peers.
HX211 negative-size attribute read | A negative buffer size. | Write 0 for a buffer not used.
HX212 huge-size attribute run | A size that no runtime can have meant. | Use fewer chunks.
HX213 bad-protocol attribute read | No such protocol. | Exactly Simple, LL or LL128.
HX214 unknown-collective attribute read | No reader knows the collective. | See docs/verify.md.
HX215 collective-refused attribute read | This reader does not know the collective. | Spell it as the target does.
HX216 collective-unchecked attribute advice | The final data is not defined. |
    Nothing: only hangs and races are checked.
HX217 metadata-missing attribute read | An attribute that this reader demands is missing. | Add it.
HX218 min-above-max attribute read | minBytes exceeds maxBytes. | Swap them.
HX219 never-selected attribute run | No call ever selects this file. |
    Mend sizes and in-place flags, or use another target.
HX220 out-of-range attribute run | ngpus or nchunksperloop is out of range. | Use 1 or more.
HX221 no-channels attribute run | nchannels is below 1. | Highest channel in use, plus 1.
HX222 bad-root attribute run | The root is no rank. | Use 0 to ngpus-1.
HX223 root-unstated attribute advice | The root is not stated. | Add `root` to <algo>.
HX224 no-right-root attribute run | The program is right for no root. | State the root to see why.
HX225 chunk-consistency attribute read | i_chunks or o_chunks contradicts nchunksperloop. | See nchunksperloop.
HX226 residual-add-run attribute run | The reader takes `ra`, the interpreter stops at it. | Use `re`.
HX227 bad-nthreads attribute read | nthreads is no multiple of 32. | Remove it.
HX228 any-root attribute run | Calls with any root run the file, which is right for one. |
    Install it only where all calls have that root.
HX229 in-place-ignored attribute run | Calls out of place select a file that is for calls in place. |
    Write it for calls out of place.
-- limits
HX301 count-limit limit read | cnt is over what readers take. | Split the step.
HX302 node-limit limit read | More elements than readers store for one rank. | Use fewer steps.
HX303 step-number limit read | `s` is beyond the steps a thread block may have. | Split the thread block.
HX304 step-limit limit crash | More steps than readers have room for. | Split the thread block.
HX305 thread-block-limit limit read | More thread blocks than readers take. | Merge thread blocks.
HX306 channel-limit limit read | The channel is too high. | Use fewer channels.
HX307 channel-overflow limit run | The reader takes this channel, the runtime has none. | Use a lower one.
HX308 peer-limit limit read | Too many peers on one channel. | Use more channels.
HX309 idle-peer-crash limit crash | Too many peers on one channel, some without a step. | Remove the idle ones.
HX310 idle-peer-overflow limit run | Peers without a step overflow the runtime's table. | Remove the idle ones.
HX311 offset-limit limit run | The offset does not fit 16 bits. | Use fewer chunks.
HX312 depid-limit limit run | The thread block waited for does not fit 8 bits. | Give it a lower id.
HX313 child-limit limit crash | Readers have room for 1024 children. | Split the element.
HX314 op-refused limit run | The runtime refuses to launch the instruction. | Receive into scratch, then cpy or re.
HX315 channels-limit limit run | nchannels is more than can be connected. | Highest channel in use, plus 1.
HX316 co-residency limit run | Thread blocks that wait for each other do not fit on the GPU. | Merge thread blocks.
HX317 channel-past-table limit read | The reader looks behind its table of channels and finds too many peers. |
    Use a lower one.
HX318 channel-crash limit crash | The reader writes behind its table of channels. |
    Use a lower one, without peers too.
-- GPUs, connections, ranges
HX401 gpu-twice attribute run | Two GPUs have one id. | One <gpu> per rank.
HX402 gpu-unknown attribute run | A GPU's id is no rank. | Use 0 to ngpus-1.
HX403 missing-gpu missing-gpu run | A rank has no <gpu>: it does nothing. | One <gpu> per rank.
HX404 not-divisible attribute run | nchunksperloop is no multiple of ngpus. | One block per rank.
HX405 declared-size attribute run | A declared size is not the collective's. | See nchunksperloop.
HX406 block-twice attribute read | Two thread blocks of a GPU have one id. | Number them from 0.
HX407 block-gap attribute read | Thread block ids leave a gap. | Number them from 0.
HX408 peer-unknown connection run | The peer is no rank. | Use 0 to ngpus-1.
HX409 peer-refused connection read | The reader refuses a peer that is no rank. | Use 0 to ngpus-1.
HX410 own-peer connection read | The peer is the GPU itself. | Use cpy.
HX411 channel-unconnected connection run | The channel is never connected. | nchannels: highest channel, plus 1.
HX412 no-peer connection read | The instruction needs a peer. | Set send or recv.
HX413 negative-count range read | cnt is negative. | Use 1 or more.
HX414 zero-count range run | cnt is 0: the runtime indexes out of bounds. | Use 1 or more.
HX415 no-buffer range run | The instruction needs a buffer. | Name it.
HX416 offset-refused range read | The first chunk is outside the buffer. | Mend offset or size.
HX417 range range run | Chunks outside the buffer are accepted, and touched. | Mend offset, cnt or size.
HX418 duplicate-connection connection run | Two thread blocks share one FIFO. | Use another channel.
HX419 unpaired-connection connection run | Messages that nobody receives or sends. | Add the other end.
HX420 message-count connection run | More messages are sent than received, or fewer. | Pair every send.
HX421 message-size connection run | Sent and received counts differ. | Use one cnt on both ends.
HX422 no-such-link no-such-link run | The topology has no such link. | Send another way.
HX423 idle-connection connection advice | A peer that no step uses. | Set it to -1.
HX424 not-mirrored attribute advice | Send and receive state different slices. | Repeat the sender's.
HX425 step-order attribute advice | `s` is not the position. | Number steps from 0.
HX426 unused-channels attribute advice | Channels are set up for nothing. | nchannels: highest channel, plus 1.
-- dependences
HX501 negative-depid dependence run | depid is below -1. | -1 means none.
HX502 missing-block dependence run | It waits for a thread block that is not there. | Mend depid.
HX503 own-block dependence run | It waits for its own thread block. | Steps are in order anyway.
HX504 missing-step dependence run | It waits for a step that is not there. | Mend deps.
HX505 never-published dependence run | It waits for a step that never says it is done. | Set hasdep=1 there.
HX506 nop-without-dependence dependence run | A nop without a dependence shifts step numbers. | Remove it.
HX507 nop-last dependence run | A trailing nop's dependence is lost. | Remove it.
HX508 nop-dependence-lost dependence read | The step after a nop has no dependence. | Let it carry the last one.
HX509 published-later dependence advice | The step waited for lacks hasdep. | Set hasdep=1 there.
HX510 reduction-count wrong-data run | Merged `re` differ in cnt; the last one wins. | Use one cnt.
HX511 long-reduction limit advice | Readers merge at most 16 `re`; the rest form another. | Nothing, or a tree.
HX512 reduction-split dependence advice | A dependence inside a run of `re` ends the merging. |
    Put it on a nop before the run.
-- execution
HX601 deadlock deadlock run | Thread blocks wait for each other. | Reorder steps, or use another channel.
HX602 split-deadlock deadlock run | It hangs once large chunks split messages. | Use cnt=1 there, or reorder.
HX603 race race run | Two accesses to one chunk that nothing orders. | Add a dependence.
HX604 overlap race run | An instruction's source and target overlap. | Go through scratch.
HX605 undefined-data undefined-data run | It reads what nothing has written. | Write it first.
HX606 split-race race run | A race that shows once messages are split. | Use cnt=1 there.
HX607 too-much-work limit run | The program is too large to execute here. |
    Nothing is known of it; use fewer thread blocks.
HX608 network-steps deadlock run | Over NICs the proxy counts other steps than the interpreter. |
    Use LL or LL128, or one node.
-- data
HX701 root-only-buffer range run | Only the root has the buffer. | Use scratch elsewhere.
HX702 input-overwritten wrong-data run | The input changes out of place. | Use scratch or output.
HX703 different-chunks wrong-data run | Different chunks are added. | Mend the offsets.
HX704 added-twice wrong-data run | A contribution is added twice. | Add each rank once.
HX705 final-data wrong-data run | The result is wrong. | Follow the chunk named.
"""


def read_rules(table: str) -> dict[str, Rule]:
    """The rules by name. Of each a line ``id name kind stage | summary | help``, which indented lines go on."""
    rules: dict[str, Rule] = {}
    for line in table.replace("\n    ", " ").split("\n"):
        if line and not line.startswith("--"):
            words, summary, advice = line.split(" | ")
            number, name, kind, stage = words.split()
            rules[name] = Rule(number, name, cast(ViolationKind, kind), cast(Stage, stage), summary, advice)
    return rules


RULES = read_rules(_TABLE)
BY_ID = {rule.id: rule for rule in RULES.values()}
MAX_FINDINGS = 50


def violation(
    rule: str,
    message: str,
    line: int | None = None,
    rank: int | None = None,
    thread_block: int | None = None,
    step: int | None = None,
) -> Violation:
    """The violation of the rule with this name."""
    checked = RULES[rule]
    return Violation(
        checked.kind, message, rank=rank, thread_block=thread_block, step=step, line=line, rule=checked.id
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Positions, not ids: the ``gpu``-th GPU, its ``block``-th thread block, that one's ``step``-th step."""

    gpu: int
    block: int | None = None
    step: int | None = None


Lines = Mapping[tuple[int, int], list[int]]
"""(position of the GPU, position of the thread block) -> line of the block, then of each of its steps.
The position -1 for the thread block stands for the GPU itself."""


@dataclass(slots=True)
class Findings:
    """Collects at most ``limit`` violations, and at most MAX_FINDINGS of each rule.

    ``context`` and the place are put before each message.
    """

    program: Program
    lines: Lines
    limit: int = MAX_FINDINGS
    context: str = ""
    violations: list[Violation] = field(default_factory=list)
    _counts: Counter[str] = field(default_factory=Counter)

    @property
    def full(self) -> bool:
        """Whether further findings are dropped."""
        return len(self.violations) >= self.limit

    def add(self, rule: str, message: str, place: Place | None = None) -> None:
        """Keeps the finding, unless there are enough already. ``rule``: a name in RULES."""
        if self.full or self._counts[rule] >= MAX_FINDINGS:
            return
        self._counts[rule] += 1
        if place is None:
            self.violations.append(violation(rule, self.context + message))
            return
        gpu = self.program.gpus[place.gpu]
        block = None if place.block is None else gpu.thread_blocks[place.block].id
        lines = self.lines.get((place.gpu, -1 if place.block is None else place.block))
        line = None if lines is None else lines[0 if place.step is None else place.step + 1]
        text = f"{self.context}{self.where(place)}: {message}"
        self.violations.append(violation(rule, text, line, gpu.rank, block, place.step))

    def where(self, place: Place) -> str:
        """``gpu 0 thread block 1 step 2`` in the file's own ids."""
        gpu = self.program.gpus[place.gpu]
        text = f"gpu {gpu.rank}"
        if place.block is not None:
            text += f" thread block {gpu.thread_blocks[place.block].id}"
        return text if place.step is None else f"{text} step {place.step}"


def shown(part: BufferSlice, count: int = 1) -> str:
    """``o[3]`` or ``o[3..5]``."""
    last = part.offset + count - 1
    return f"{part.buffer}[{part.offset}]" if last <= part.offset else f"{part.buffer}[{part.offset}..{last}]"
