"""Command lines that nobody would write, each named by a seed: mutated files, extreme numbers, odd topologies.

``command(seed, folder, seeds)`` writes the files of one case and returns its arguments; the same on every machine.
``complaint`` runs one in a child process with limits on its processor time and its memory.

    python -m support.command_fuzz 0 2000    # runs these seeds, and prints what a command may not do
"""

from __future__ import annotations

import io
import os
import random
import re
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from verify.hostile_mutations import ANY, XML, mutated

from hetesynth.cli.main import run
from hetesynth.model.collective import COLLECTIVE_NAMES
from hetesynth.model.target import TARGETS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
FIG10 = str(EXAMPLES / "fig10" / "topo.dsl")
SMALL = (
    "fig10", "ring8", "dgx1", "h20_4p8", "v100_4p8_sharednic", "mi250_x1", "two_dc_50km", "h20_pods", "h20_16",
    "v100_fail_one4", "a100_x2", "ndv2_x4", "v100_4x3",
)  # fmt: skip
SECONDS, GIGABYTES = 20, 2
NUMBERS = (
    "1", "2", "3", "5", "7", "13", "0.001", "0.000000000000001", "1000000000000", "65536", "4096", "2147483648",
    "999999999999999999", "0.3333333333333333", "1.0000000000000001", "0.1", "123456789.123456789",
)  # fmt: skip
REFUSED = (
    "0", "-1", "1e-300", "1e308", "9223372036854775808", "nan", "inf", "9" * 400, "4.9e-324", "1/3", "null", "[]",
)  # fmt: skip
PLACE = re.compile(r"(?<![\w.\"\[,-])[0-9]+(?:\.[0-9]+)?(?![-\d.])")
SIZES, TIMES, RATES = "B KB MB GB TB PB KiB", "ns us ms s", "GB/s Gbps MB/s B/s Tb/s %"
COMMANDS = """
topo lint T
topo show T
topo show T --all --chunk-size=S --tau-ref=U
topo show T --json
topo ranks T
topo fmt T
topo convert T --to=block
topo convert T --to=json
topo export T --to=astra-sim
bounds T --coll=C --chunks=N --root=N
bounds T --coll=C --check
bounds T --coll=C --degrade=D
compare T --coll=C --time-budget=1 --sizes=1MB --plot=O.svg
compare T --coll=C --time-budget=1 --sizes=S --json
atlas T --coll=C --time-budget=1 --sizes=1MB -o O
synth T --coll=C --time-budget=1 -o O
synth T --coll=C --time-budget=1 -o O --size=S --report=O.html --trace=O.trace
synth T --coll=C --time-budget=1 -o O --chunk-size=S --chunks=N --rounding=floor
synth T --coll=C --time-budget=1 -o O --effort=N --seed=N --max-peers=N --json
synth T --coll=C --time-budget=Nms -o O --target=X
synth T --coll=C --time-budget=1 -o O --rings=F --strategy=ring
verify F
verify F --json
verify F --topo=T --sms=N
verify F --target=X --root=N
import F -o O --target=portable
import F --topo=T -o O
simulate F T --size=S
simulate F FIG10 --size=1MB --steps=barrier --alpha=occupy
simulate F FIG10 --degrade=D --trace=O.trace
run F --backend inprocess
install-hint X F
repair s.json FIG10 --degrade=D --time-budget=1 -o O
""".strip().splitlines()


@dataclass(frozen=True)
class Seeds:
    """Right files to start from, by their kind."""

    topologies: tuple[bytes, ...]
    files: dict[str, tuple[bytes, ...]]


def write_seeds(folder: Path) -> Seeds:
    """Programs, plans and schedules for fig10, as the commands write them."""
    with redirect_stdout(io.StringIO()):
        for name in ("allgather", "allreduce", "alltoall", "broadcast"):
            words = ["synth", FIG10, "--coll", name, "--target", "portable,mscclpp", "-o", str(folder / name)]
            assert run(words) == 0
    paths = (*(EXAMPLES / name / "topo.dsl" for name in SMALL), *sorted((ROOT / "dsl" / "library").glob("*.dsl")))
    kinds = {"x.xml": "*.xml", "p.json": "*.mscclpp*.json", "s.json": "*.schedule.json"}
    files = {kind: tuple(p.read_bytes() for p in sorted(folder.glob(glob))) for kind, glob in kinds.items()}
    return Seeds(tuple(path.read_bytes() for path in paths), files)


def number(rng: random.Random) -> str:
    """Mostly one that can be read."""
    return rng.choice(NUMBERS if rng.random() < 0.88 else REFUSED)


def extreme(rng: random.Random, text: str) -> str:
    """``text`` with some of its numbers replaced."""
    places = list(PLACE.finditer(text))
    for at in sorted(rng.sample(places, min(len(places), rng.randint(1, 3))), key=lambda m: -m.start()):
        text = text[: at.start()] + number(rng) + text[at.end() :]
    return text


def topology(rng: random.Random) -> str:
    """A text of the block form: mostly right, sometimes of parts that do not fit."""
    nodes = "".join(_node(rng, f"n{i}") for i in range(2))
    types = ("n0", "n0", "n0", "n1", "n1", "v100x4", "dgx1")
    instances = "".join(
        f"  instance {name} = {rng.choice(types)}{rng.choice(('', '', '', ' x 2'))}\n"
        for name in "ab"[: rng.choice((1, 2, 2))]
    )
    extra = "".join(rng.sample(_CLUSTER_ITEMS, rng.choice((0, 0, 1, 2))))
    head = f"import dgx1\nimport v100\n{nodes}cluster c {{\n  chunk {rng.choice(('4 MB', '1 B', '1 GB'))}\n"
    return f"{head}{instances}  fabric f {{ join *.nic* }}\n{extra}}}\n"


_CLUSTER_ITEMS = (
    "  switch sp { ports f; bandwidth 50 GB/s }\n",
    "  link a.gpu0 -> b.gpu1 { bandwidth 10 GB/s }\n",
    "  disable a.gpu0\n",
    "  set *.nic* { bandwidth 3 GB/s }\n",
    "  shared s 2 GB/s { a*.gpu* -> b*.gpu* }\n",
    "  link a.gpu1 -> b.gpu0 { bandwidth 1 GB/s x 3 }\n",
)


def _node(rng: random.Random, name: str) -> str:
    rate, slow = (
        rng.choice(("1 GB/s", "25 GB/s", "0.001 GB/s", "1 Tb/s", "3 GB/s x 64")),
        rng.choice(("0 us", "5 ms")),
    )
    items = (
        f"  mesh gpu* {{ bandwidth {rate} }}\n",
        f"  link gpu0 -> gpu[1-2] {{ bandwidth {rate} }}\n",
        f"  link gpu[1-2] <-> gpu0 {{ bandwidth {rate}; latency {slow} }}\n",
        f"  bus b {{ members gpu*; bandwidth {rate} }}\n",
        f"  switch s {{ ports gpu*; bandwidth {rate}; latency {slow} }}\n",
        "  shared g 7 MB/s { gpu0 -> gpu1 }\n",
        '  model "&<>\'"\n',
    )
    gpus = f"  gpus {rng.choice((2, 3, 3, 4))}{rng.choice(('', '', '', ' except 0'))}\n"
    nics = f"  nic nic0 {{ bandwidth {rate} }}\n  attach {rng.choice(('gpu*', 'gpu0'))} -> nic0\n"
    return f"node {name} {{\n{gpus}{''.join(rng.sample(items, rng.randint(1, 3)))}{nics}}}\n"


def cluster(rng: random.Random) -> str:
    """A topology of the grammar or of the examples, with extreme numbers."""
    text = topology(rng) if rng.random() < 0.5 else (EXAMPLES / rng.choice(SMALL) / "topo.dsl").read_text("utf-8")
    return extreme(rng, text)


def command(seed: int, folder: Path, seeds: Seeds) -> list[str]:
    """The arguments of the case ``seed``, whose files are written to ``folder``."""
    rng = random.Random(f"command {seed}")

    def mutant(texts: tuple[bytes, ...], ways: tuple[object, ...]) -> bytes:
        return mutated(rng.randrange(2**32), texts, ways)  # type: ignore[arg-type]

    hostile = mutant(seeds.topologies, ANY) if rng.random() < 0.3 else cluster(rng).encode()
    (folder / "t.dsl").write_bytes(topology(rng).encode() if rng.random() < 0.3 else hostile)
    for name, texts in seeds.files.items():
        text, kind = rng.choice(texts), rng.random()
        if kind < 0.4:
            text = extreme(rng, text.decode()).encode()
        elif kind < 0.8:
            text = mutant(texts, XML if name == "x.xml" else ANY)
        (folder / name).write_bytes(text)
    words: dict[str, Callable[[], str]] = {
        "T": lambda: str(folder / "t.dsl"), "F": lambda: str(folder / rng.choice(list(seeds.files))),
        "s.json": lambda: str(folder / "s.json"), "O": lambda: str(folder / "made"), "FIG10": lambda: FIG10,
        "C": lambda: rng.choice(COLLECTIVE_NAMES), "X": lambda: rng.choice(list(TARGETS)),
        "N": lambda: number(rng), "S": lambda: number(rng) + rng.choice(SIZES.split()),
        "U": lambda: number(rng) + rng.choice(TIMES.split()),
        "D": lambda: f"*.gpu0<->*.gpu1={number(rng)}{rng.choice(RATES.split())}",
    }  # fmt: skip
    return [
        re.sub(r"(?<![a-z])(FIG10|s\.json|[TFOCXNSUD])", lambda m: words[m[0]](), word)
        for word in rng.choice(COMMANDS).split()
    ]


def complaint(arguments: list[str]) -> tuple[str, int]:
    """What a command did that it may not do, "" where that is nothing; its exit code."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        said, code = io.StringIO(), -1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 2 * SECONDS, -1))
            resource.setrlimit(resource.RLIMIT_DATA, (GIGABYTES << 30, -1))
            with redirect_stdout(said), redirect_stderr(said):
                code = run(arguments)
            text = said.getvalue()
            wrong = code not in (0, 1, 2, 3) or "Traceback" in text or "\x1b" in text
            text = f"exit code {code}: {text[-600:]}" if wrong else ""
        except BaseException:
            text = traceback.format_exc()[-600:]
        os.write(write, text.encode("utf-8", "backslashreplace"))
        os._exit(max(0, code))
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        text = stream.read().decode()
    _, status, used = os.wait4(child, 0)
    seconds, code = used.ru_utime + used.ru_stime, os.waitstatus_to_exitcode(status)
    if not text and (code < 0 or seconds > SECONDS):
        text = f"ended by {code} after {seconds:.0f} s"
    return text, code


def outcomes(first: int, last: int, folder: Path) -> Iterator[tuple[int, list[str], str, int]]:
    """Seed, arguments, complaint and exit code of the cases ``first`` to ``last - 1``."""
    (folder / "seeds").mkdir()
    seeds = write_seeds(folder / "seeds")
    for seed in range(first, last):
        own = folder / str(seed)
        own.mkdir()
        arguments = command(seed, own, seeds)
        yield seed, arguments, *complaint(arguments)


def main() -> None:
    """Print every case that has something wrong."""
    with tempfile.TemporaryDirectory() as folder:
        for seed, arguments, wrong, _ in outcomes(*map(int, sys.argv[1:3]), Path(folder)):
            if wrong:
                print(f"seed {seed}: {' '.join(arguments)}\n  {wrong}", flush=True)


if __name__ == "__main__":
    main()
