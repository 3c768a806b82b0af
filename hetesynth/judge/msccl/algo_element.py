"""The root element of an MSCCL XML file: what the whole program is.

In: the attributes of <algo> and the GPUs read below it. Out: the Program, or None when some needed value
is missing or means nothing. Which runtime requires which attribute is stated here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from hetesynth.judge.msccl.values import Values
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.program import GpuProgram, Program, Protocol

MAX_RANKS = 4096
MAX_CHUNKS = 65536

_PROTOCOLS: dict[str, Protocol] = {"simple": "Simple", "ll": "LL", "ll128": "LL128"}
_OTHER_COLLECTIVES = frozenset({"custom", "send", "recv", "alltoallv"})


def algorithm(
    attributes: dict[str, str], line: int, gpus: tuple[GpuProgram, ...], values: Values
) -> Program | None:
    """The program that <algo> on ``line`` describes; findings go to ``values``."""
    root = _Root(attributes, line, values)
    protocol, collective = root.protocol(), root.collective()
    channels, chunks = root.required("nchannels"), root.required("nchunksperloop")
    ranks, inplace = root.required("ngpus"), root.required("inplace")
    outofplace = root.optional("outofplace", 0 if inplace else 1)
    low, high = root.optional("minBytes", 0), root.optional("maxBytes", 0)
    stated = values.integer(attributes, "algo", "root", line) if "root" in attributes else None
    if "name" not in attributes:
        root.minor(
            "metadata-missing", "attribute `name` is missing on <algo>; the research runtime refuses the file"
        )
    root.in_range("ngpus", ranks, MAX_RANKS)
    root.in_range("nchunksperloop", chunks, MAX_CHUNKS)
    if channels < 1 and "nchannels" in attributes:
        values.report("no-channels", f"nchannels={channels}: at least one channel is needed", line)
    root.flags(inplace, outofplace)
    if high and low > high:
        root.minor(
            "min-above-max", f"minBytes={low} exceeds maxBytes={high}: the file is refused or never selected"
        )
    if values.unreadable or collective is None or protocol is None:
        return None
    return Program(
        name=attributes.get("name", ""), collective=collective, ranks=ranks, protocol=protocol, channels=channels,
        chunks_per_loop=chunks, in_place=inplace == 1, out_of_place=outofplace == 1, min_bytes=low,
        max_bytes=high, root=stated, gpus=gpus,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Root:
    attributes: dict[str, str]
    line: int
    values: Values

    def minor(self, rule: str, message: str) -> None:
        self.values.report(rule, message, self.line, minor=True)

    def required(self, name: str) -> int:
        return self.values.integer(self.attributes, "algo", name, self.line)

    def optional(self, name: str, default: int) -> int:
        """An attribute that the research runtime does without."""
        if name in self.attributes:
            return self.required(name)
        self.minor(
            "metadata-missing", f"attribute `{name}` is missing on <algo>; RCCL and the executor refuse the file"
        )
        return default

    def in_range(self, name: str, value: int, top: int) -> None:
        if 1 <= value <= top:
            return
        self.values.unreadable = True
        if name in self.attributes:
            self.values.report("out-of-range", f"{name}={value} is out of range, 1 to {top}", self.line)

    def flags(self, inplace: int, outofplace: int) -> None:
        for name, value in (("inplace", inplace), ("outofplace", outofplace)):
            if value not in (0, 1):
                self.values.report("bad-mode", f"{name}={value} is neither 0 nor 1", self.line)
        if inplace == 0 and outofplace == 0:
            self.minor(
                "never-selected", "neither inplace nor outofplace is 1: no runtime can ever select this file"
            )

    def protocol(self) -> Protocol | None:
        """A protocol in the wrong case is reported, and understood."""
        text = self.attributes.get("proto")
        protocol = _PROTOCOLS.get((text or "").lower())
        expected = "exactly Simple, LL or LL128 (case counts)"
        if protocol is None:
            self.values.bad("bad-protocol", "algo", "proto", text, expected, self.line)
        elif text != protocol:
            self.values.report("bad-protocol", f'proto="{text}" is not {expected}', self.line)
        return protocol

    def collective(self) -> CollectiveName | None:
        text = self.attributes.get("coll")
        if text == "reduce_scatter":
            text = 'coll="reduce_scatter" is for the research runtime; RCCL and the executor read reducescatter'
            self.minor("collective-refused", text)
            return "reducescatter"
        if text in _OTHER_COLLECTIVES:
            what = f'coll="{text}" does not say what the final data must be'
            self.minor("collective-unchecked", f"{what}: it is executed, the data is not checked")
        elif text not in COLLECTIVE_NAMES:
            self.values.bad(
                "unknown-collective", "algo", "coll", text, f"one of {' '.join(COLLECTIVE_NAMES)}", self.line
            )
            return None
        return cast(CollectiveName, text)
