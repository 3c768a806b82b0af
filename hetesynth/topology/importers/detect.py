"""The tools of the machine itself: runs those that exist, with fixed arguments, and gives what they printed.

No shell, nothing from the user in the command, a limit on time and on output; what fails is remarked and passed
over.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.machine import Remark
from hetesynth.topology.importers.reading import Source

MAX_SECONDS = 30.0
MAX_OUTPUT = 16_000_000
BLOCK = 65_536


@dataclass(frozen=True, slots=True)
class Tool:
    """A command; ``family``: commands of one family describe one server together or in place of each other."""

    family: str
    arguments: tuple[str, ...]


# in the order of preference: the first family that answers counts
TOOLS = (
    Tool("nvidia", ("nvidia-smi", "topo", "-m")),
    Tool("nvidia", ("nvidia-smi", "-L")),
    Tool("nvidia", ("nvidia-smi", "nvlink", "-s")),
    Tool("amd", ("amd-smi", "topology", "--json")),
    Tool("amd-old", ("rocm-smi", "--showtopo")),
    Tool("hwloc", ("lstopo-no-graphics", "--of", "xml", "--whole-io")),
    Tool("hwloc", ("lstopo", "--of", "xml", "--whole-io")),
)
FABRIC = (Tool("fabric", ("ibnetdiscover",)),)
PORTS = Path("/sys/class/infiniband")
MAX_PORTS = 256


@dataclass(frozen=True, slots=True)
class Detected:
    """What the tools printed, and remarks on those that failed."""

    sources: tuple[Source, ...]
    remarks: tuple[Remark, ...] = ()


def detect(tools: Sequence[Tool] = TOOLS, seconds: float = MAX_SECONDS) -> Detected:
    """The output of the first family of which a tool exists and answers; HS745 where none does."""
    remarks: list[Remark] = []
    for family in dict.fromkeys(tool.family for tool in tools):
        sources: list[Source] = []
        for tool in tools:
            path = shutil.which(tool.arguments[0]) if tool.family == family else None
            if path is None or (family == "hwloc" and sources):
                continue
            name = " ".join(tool.arguments)
            try:
                sources.append(Source(name, _output((path, *tool.arguments[1:]), seconds)))
            except HetesynthError as error:
                remarks.append(Remark("suspicious", f"`{name}`: {error.message}", "warning"))
        if sources:
            return Detected(tuple(sources), tuple(remarks))
    names = ", ".join(dict.fromkeys(tool.arguments[0] for tool in tools))
    said = "; ".join(remark.text for remark in remarks)
    raise HetesynthError(
        f"no tool that describes this machine answered{f': {said}' if said else ''}",
        code="HS745",
        help=f"run it where there is one of {names}, or use hetesynth topo import with what they print",
    )


def nic_rates(ports: Path = PORTS) -> dict[str, Fraction]:
    """The rates of InfiniBand and RoCE ports by NIC, in bytes per second, as Linux states them."""
    rates: dict[str, Fraction] = {}
    try:
        files = sorted(ports.glob("*/ports/1/rate"))[:MAX_PORTS]
    except OSError:
        return rates
    for file in files:
        try:
            with file.open("rb") as stream:
                text = stream.read(200).decode("ascii", "replace")
        except OSError:
            continue
        if match := re.match(r"(\d{1,5}(?:\.\d)?) Gb/sec", text):
            rates[file.parts[-4]] = Fraction(match[1]) * 10**9 / 8
    return {name: rate for name, rate in rates.items() if rate}


def _output(command: Sequence[str], seconds: float) -> bytes:
    """What a command prints; HetesynthError HS747 where it fails, prints too much or takes too long."""
    environment = os.environ | {"LC_ALL": "C", "LANG": "C"}
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise _failed(error.strerror or "cannot be run") from error
    try:
        output = _read(process, time.monotonic() + seconds)
        code = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise _failed(f"gave no answer in {seconds:g} s") from error
    finally:
        _end(process)
    if code != 0:
        raise _failed(f"left with exit code {code}")
    if not output.strip():
        raise _failed("printed nothing")
    return output


def _read(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """All that a process prints until ``deadline``."""
    pipe = process.stdout
    if pipe is None:
        return b""
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                raise _failed("gave no answer in time")
            block = os.read(pipe.fileno(), BLOCK)
            if not block:
                return bytes(output)
            output += block
            if len(output) > MAX_OUTPUT:
                raise _failed(f"printed more than {MAX_OUTPUT} bytes")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs with all that it started."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdout is not None:
        process.stdout.close()
    process.wait()


def _failed(why: str) -> HetesynthError:
    return HetesynthError(f"it {why}", code="HS747", help="run it by hand and import what it prints")
