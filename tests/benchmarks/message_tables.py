"""The part of docs/targets.md on messages: what they carry in each runtime, and what is said of NICs.

In: the table of targets. Out: lines.
"""

from __future__ import annotations

from collections.abc import Iterator

from hetesynth.model.program import Protocol
from hetesynth.model.target import TARGETS, Target

PROTOCOLS: tuple[Protocol, ...] = ("Simple", "LL", "LL128")


def message_lines() -> Iterator[str]:
    """The whole part, without a blank line at its ends."""
    yield from _INTRODUCTION.splitlines()
    yield "| protocol | target | collectives | messages held | of one chunk | of several | overhead |"
    yield "|---|---|---|---|---|---|---|"
    for protocol in PROTOCOLS:
        for names, target in _alike(protocol):
            for collectives, example in (("all others", "allgather"), ("broadcast, reduce", "broadcast")):
                fifo = target.fifo(protocol, example)
                if example == "broadcast" and fifo == target.fifo(protocol, "allgather"):
                    continue
                columns = f"{fifo.slots} | {fifo.slice_bytes:,} | {fifo.batch_bytes:,} | {fifo.overhead}"
                named = collectives if protocol == "Simple" else "all"
                yield f"| {protocol} | {', '.join(names)} | {named} | {columns} |"
    yield from _NETWORK.splitlines()


def _alike(protocol: Protocol) -> Iterator[tuple[list[str], Target]]:
    """Targets in XML whose messages are the same, with one of them."""
    by_fifo: dict[object, list[Target]] = {}
    for t in TARGETS.values():
        if t.format == "msccl-xml":
            by_fifo.setdefault(t.fifo(protocol, "allgather"), []).append(t)
    for alike in by_fifo.values():
        yield [f"`{t.name}`" for t in alike], alike[0]


_INTRODUCTION = """\
## Messages

What one message carries, in bytes, with default buffers: of one chunk (a larger chunk makes the whole program
loop over slices), and of several chunks of one step (`cnt`; more take several messages). Overhead: bytes on the
wire for one of data. `model/target.py` has the derivation; `portable` stands for the shortest of all. With
Simple, the runtimes count one buffer step of 512 KiB for a message of a broadcast or a reduce, four for that of
every other collective; their interpreter takes four for all. On ARM hosts the research runtime and RCCL 5.5 to
6.1 have buffers of 1 MiB for Simple, a quarter: messages there split four times earlier.

"""
_NETWORK = """\

### Simple broadcast and reduce over NICs

Read in the sources (RCCL from 5.5 to October 2024, the MSCCL executor, the research runtime); not run, and RCCL
6.4 to 7.12 was not read. A broadcast or a reduce with `proto="Simple"` whose messages pass a NIC hangs there:

- The host takes CHUNKSTEPS = SLICESTEPS = 1 of NCCL's own broadcast and reduce, and tells the proxy of the
  connection to move one step a message, one by one. The interpreter is compiled for four steps a message in two
  slices of two, whatever the collective.
- The receiver waits until the tail of its connection is two steps on. The proxy raises it by one for each step
  that has come.
- The sender states the size of a slice at its first step only. The proxy sends that, then waits for a size at
  the next step, where none is ever stated; of a single message it is done after the first slice. So the tail of
  the receiver never gets past one.

Inside a node no proxy takes part in peer-to-peer and shared-memory connections (unless copies by the host's
engines are switched on), and such programs run. LL and LL128 count one step on both sides, for all collectives:
a file with LL in place of Simple in `proto` is not affected, at twice the bytes on the wire (`hetesynth verify`
it again). `verify` tells of it (HX608) and so do `synth`, `atlas`, `import` and `install-hint`.
"""
