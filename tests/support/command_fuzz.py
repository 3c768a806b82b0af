"""Command lines with files that nobody would write, each named by a seed.

``command(seed, folder, seeds)`` writes the files of one case and returns its arguments; the same on every machine.
Half of the topologies come from a grammar of their own, all else are mutations of right files.

    python -m support.command_fuzz 0 2000    # runs these seeds, and prints what a command may not do
"""

from __future__ import annotations

import io
import random
import re
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path

from verify.hostile_mutations import ANY, XML, mutated

from hetesynth.cli.main import run
from hetesynth.model.collective import COLLECTIVE_NAMES
from hetesynth.model.target import TARGETS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
TOPOLOGIES = ("fig10", "ring8", "dgx1", "h20_4p8", "v100_4p8_sharednic", "mi250_x1", "v100_fail_one4")
SECONDS = 20
MEGABYTES = 500
RATES = (
    "1 GB/s",
    "25 GB/s",
    "450 GB/s",
    "1000000 GB/s",
    "0.001 GB/s",
    "1 Tb/s",
    "7 MB/s",
    "50 GB/s x 2",
    "3 GB/s x 64",
)
TIMES = ("0 us", "1.3 us", "250 s", "5 ms", "1 ns")
NUMBERS = (
    b"0", b"-1", b"1", b"2", b"5", b"7", b"63", b"1000", b"65536", b"4000001", b"2147483648", b"4294967296",
    b"9007199254740992", b"9223372036854775808", b"1e400", b"1.5", b"null", b"true", b'"x"', b"[]", b"{}",
    b"9" * 400,
)  # fmt: skip
RINGS = b"""<graphs version="1"><graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="20">
<channel><gpu dev="0"/><gpu dev="1"/><gpu dev="2"/><gpu dev="3"/></channel>
<channel><gpu dev="3"/><gpu dev="2"/><gpu dev="1"/><gpu dev="0"/></channel></graph></graphs>
"""


@dataclass(frozen=True)
class Seeds:
    """Right files to start from."""

    topologies: tuple[bytes, ...]
    programs: tuple[bytes, ...]
    plans: tuple[bytes, ...]
    schedules: tuple[bytes, ...]


def write_seeds(folder: Path) -> Seeds:
    """Programs, plans and schedules for fig10, as the commands write them."""
    with redirect_stdout(io.StringIO()):
        for name in ("allgather", "allreduce", "alltoall", "broadcast"):
            topology = str(EXAMPLES / "fig10" / "topo.dsl")
            target = ["--target", "portable,mscclpp", "-o", str(folder / name)]
            assert run(["synth", topology, "--coll", name, *target]) == 0
    library = sorted((ROOT / "dsl" / "library").glob("*.dsl"))
    topologies = [EXAMPLES / name / "topo.dsl" for name in TOPOLOGIES]
    return Seeds(
        tuple(path.read_bytes() for path in (*topologies, *library)),
        tuple(path.read_bytes() for path in sorted(folder.glob("*.xml"))),
        tuple(p.read_bytes() for p in sorted(folder.glob("*.json")) if not p.name.endswith(".schedule.json")),
        tuple(path.read_bytes() for path in sorted(folder.glob("*.schedule.json"))),
    )


def change_value(rng: random.Random, text: bytes) -> bytes:
    """Another number, or no number, for one of those in a JSON text."""
    found = list(re.finditer(rb"-?\b[0-9]+\b", text))
    if not found:
        return text
    at = rng.choice(found)
    return text[: at.start()] + rng.choice(NUMBERS) + text[at.end() :]


JSON = (*ANY, change_value, change_value, change_value, change_value)


def topology(rng: random.Random) -> bytes:
    """A text of the block form: mostly right, sometimes of parts that do not fit."""
    imports = "import dgx1\nimport v100\n"
    nodes = "".join(_node(rng, f"n{i}") for i in range(2))
    instances = []
    for name in "ab"[: rng.choice((1, 2, 2))]:
        node = rng.choice(("n0", "n0", "n0", "n1", "n1", "v100x4", "dgx1"))
        copies = rng.choice(("", "", "", "", "", " x 2"))
        instances.append(f"  instance {name} = {node}{copies}\n")
    extra = "".join(rng.choice(_CLUSTER_ITEMS) for _ in range(rng.choice((0, 0, 1, 2))))
    fabric = f"  fabric f {{ join *.nic*{rng.choice(('', '; bandwidth ' + rng.choice(RATES)))} }}\n"
    body = "".join(instances) + (fabric if rng.random() < 0.9 else "") + extra
    return (
        f"{imports}{nodes}cluster c {{\n  chunk {rng.choice(('4 MB', '1 B', '1 KB', '1 GB'))}\n{body}}}\n".encode()
    )


_CLUSTER_ITEMS = (
    "  switch sp { ports f; bandwidth 50 GB/s }\n",
    "  link a.gpu0 -> b.gpu1 { bandwidth 10 GB/s }\n",
    "  link a.gpu0 <-> a.gpu1 { bandwidth 10 GB/s; latency 5 us }\n",
    "  disable a.gpu0\n",
    "  disable a*.nic*\n",
    "  set *.nic* { bandwidth 3 GB/s }\n",
    "  shared s 2 GB/s { a*.gpu* -> b*.gpu* }\n",
    "  link a.gpu1 -> b.gpu0 { bandwidth 1 GB/s x 3 }\n",
)


def _node(rng: random.Random, name: str) -> str:
    rate, time_ = rng.choice(RATES), rng.choice(TIMES)
    one, two = rng.choice((("gpu0", "gpu[1-2]"), ("gpu[1-2]", "gpu0"), ("gpu1", "gpu0"), ("gpu0", "gpu*")))
    mesh = f"  mesh gpu* {{ bandwidth {rate} }}\n"
    items = [
        mesh,
        mesh,
        f"  link {one} -> {two} {{ bandwidth {rate} }}\n",
        f"  link {one} <-> {two} {{ bandwidth {rate}; latency {time_} }}\n",
        f"  mesh gpu* {{ bandwidth {rate} }}\n",
        f"  bus b {{ members gpu*; bandwidth {rate} }}\n",
        f"  bus p {{ members gpu0 <-> nic0; bandwidth {rate} }}\n",
        f"  switch s {{ ports gpu*; bandwidth {rate}; latency {time_} }}\n",
        f"  shared g {rng.choice(RATES)} {{ gpu0 -> gpu1 }}\n",
        f"  reduce {rate}\n".replace(" x ", " # x "),
        '  model "&<>\'"\n',
    ]
    gpus = f"  gpus {rng.choice((2, 3, 3, 4))}{rng.choice(('', '', '', '', '', ' except 0'))}\n"
    nic = f"  nic nic[0-{rng.choice((0, 0, 0, 1))}] {{ bandwidth {rng.choice(RATES)} }}\n"
    attached = rng.choice(("gpu* -> nic0", "gpu* -> nic0", "gpu* -> nic0", "gpu0 -> nic*", "gpu0 -> nic0"))
    chosen = "".join(rng.sample(items, rng.randint(1, 3)))
    return f"node {name} {{\n{gpus}{chosen}{nic}  attach {attached}\n}}\n"


def command(seed: int, folder: Path, seeds: Seeds) -> list[str]:
    """The arguments of the case ``seed``, whose files are written to ``folder``."""
    rng = random.Random(f"command {seed}")

    def file(name: str, data: bytes) -> str:
        (folder / name).write_bytes(data)
        return str(folder / name)

    def some(texts: Sequence[bytes], mutations: tuple[object, ...]) -> bytes:
        return mutated(rng.randrange(2**32), texts, mutations)  # type: ignore[arg-type]

    def cluster() -> str:
        text = topology(rng) if rng.random() < 0.6 else some(seeds.topologies, ANY)
        return file("t.dsl", text)

    kind = rng.choice(("x.xml", "p.json", "s.json"))
    made = {"x.xml": (seeds.programs, XML), "p.json": (seeds.plans, JSON), "s.json": (seeds.schedules, JSON)}
    name = rng.choice(("topo", "bounds", "synth", "synth", "compare", "atlas", "verify", "verify", "verify",
                       "import", "import", "simulate", "simulate", "run", "install-hint"))  # fmt: skip
    form = ["--json"] if rng.random() < 0.4 else []
    if name == "topo":
        return ["topo", "show", cluster(), *form, *(["--all"] if rng.random() < 0.3 else [])]
    coll = ["--coll", rng.choice(COLLECTIVE_NAMES)]
    if rng.random() < 0.2:
        coll += [rng.choice(("--chunks", "--root")), rng.choice(("1", "2", "7"))]
    if name == "bounds":
        return ["bounds", cluster(), *coll, *form, *(["--check"] if rng.random() < 0.5 else [])]
    budget = ["--time-budget", "1"]
    if name == "compare":
        return ["compare", cluster(), *coll, *budget, "--sizes", "1MB", *form, "--plot", str(folder / "p.svg")]
    if name == "atlas":
        return ["atlas", cluster(), *coll, *budget, "--sizes", "1MB", *form, "-o", str(folder / "atlas")]
    if name == "synth":
        more = [["--size", "1MB"], ["--report", str(folder / "r.html"), "--trace", str(folder / "r.trace")],
                ["--rings", file("g.xml", some([RINGS], XML)), "--strategy", "ring"], [], [],
                ["--target", "mscclpp"], ["--target", rng.choice(list(TARGETS))],
                ["--report", str(folder / "r.svg")]]  # fmt: skip
        return ["synth", cluster(), *coll, *budget, *rng.choice(more), *form, "-o", str(folder / "made")]
    data = file(kind, some(*made[kind]))
    on = str(EXAMPLES / "fig10" / "topo.dsl") if rng.random() < 0.8 else cluster()
    if name == "verify":
        more = [[], ["--topo", on], ["--target", rng.choice(list(TARGETS))], ["--portable"], ["--root", "1"]]
        return ["verify", data, *rng.choice(more), *rng.choice(([], ["--json"], ["--sarif"]))]
    if name == "import":
        more = [[], ["--topo", on], ["--target", "portable,mscclpp"], ["--root", "1"]]
        return ["import", data, *rng.choice(more), *form, "-o", str(folder / "made")]
    if name == "simulate":
        shown = [[], [], ["--trace", str(folder / "r.trace")], ["--report", str(folder / "r.html")]]
        return ["simulate", data, on, "--size", rng.choice(("1MB", "1KB..4GB", "1B")), *rng.choice(shown), *form]
    if name == "run":
        return ["run", data, "--in-process", "--timeout", "2", *form]
    return ["install-hint", rng.choice(list(TARGETS)), data, *form]


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    arguments: tuple[str, ...]
    code: int
    seconds: float
    megabytes: float
    output: str
    error: str

    @property
    def complaint(self) -> str:
        """What a command may not do; empty for what it may."""
        if self.code not in (0, 1, 2, 3) or "Traceback" in self.error or "internal error" in self.error:
            return f"exit code {self.code}: {self.error[-300:]}"
        if self.seconds > SECONDS:
            return f"{self.seconds:.0f} s"
        if self.megabytes > MEGABYTES:
            return f"{self.megabytes:.0f} MB"
        if "\x1b" in self.output + self.error:
            return "a raw escape character"
        return ""


class TooLong(BaseException):
    """The command did not end."""


def outcome(arguments: Sequence[str]) -> Outcome:
    """Run a command in this process, for at most a few times ``SECONDS``."""

    def stop(number: int, frame: object) -> None:
        raise TooLong

    output, error = io.StringIO(), io.StringIO()
    before, began = _peak(), time.process_time()
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(6 * SECONDS)
    try:
        with redirect_stdout(output), redirect_stderr(error):
            code = run(list(arguments))
    except TooLong:
        code = -1
    finally:
        signal.alarm(0)
    spent = time.process_time() - began
    return Outcome(tuple(arguments), code, spent, _peak() - before, output.getvalue(), error.getvalue())


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def outcomes(first: int, last: int, folder: Path) -> Iterator[tuple[int, Outcome]]:
    """The cases ``first`` to ``last - 1``, one after the other."""
    (folder / "seeds").mkdir()
    seeds = write_seeds(folder / "seeds")
    for seed in range(first, last):
        own = folder / str(seed)
        own.mkdir()
        found = outcome(command(seed, own, seeds))
        hidden = [p.name for p in own.rglob("*") if p.is_file() and p.parent == own and b"\x1b" in _written(p)]
        yield seed, replace(found, output=found.output + "\x1b" * bool(hidden))


def _written(path: Path) -> bytes:
    """The contents of a file that a command wrote."""
    return b"" if path.name in ("x.xml", "p.json", "s.json", "t.dsl", "g.xml") else path.read_bytes()


def main() -> None:
    """Print every case that has something wrong, then how many there were of each exit code."""
    first, last = (int(word) for word in sys.argv[1:3])
    codes: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        for seed, found in outcomes(first, last, Path(folder)):
            codes[found.code] = codes.get(found.code, 0) + 1
            if found.complaint:
                print(f"seed {seed}: {' '.join(found.arguments)}\n  {found.complaint}", flush=True)
    print(f"exit codes: {dict(sorted(codes.items()))}")


if __name__ == "__main__":
    main()
