"""Command lines with extreme numbers, each named by a seed: rates, times, counts and sizes nobody writes.

``command(seed, folder, seeds)`` writes the files of one case and returns its arguments; the same on every machine.
``outcome`` runs one in a child process with limits on its processor time and its memory.

    python -m support.extreme_numbers 0 500    # runs these seeds, and prints what a command may not do
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
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from support.command_fuzz import EXAMPLES, ROOT, Seeds, topology, write_seeds

from hetesynth.cli.main import run
from hetesynth.model.collective import COLLECTIVE_NAMES
from hetesynth.model.target import TARGETS

SECONDS, GIGABYTES = 20, 2
READ = (
    "1", "2", "3", "5", "7", "8", "13", "0.001", "0.000000001", "0.000000000000001", "1000000000", "1000000000000",
    "1000000", "65536", "512", "64", "4096", "2147483648", "999999999999999999", "0.3333333333333333",
    "1.0000000000000001", "0.999999999999", "100000", "0.1", "33.3", "123456789.123456789",
)  # fmt: skip
REFUSED = (
    "0", "-1", "1e-300", "1e308", "1e9", "9223372036854775808", "1e30", "nan", "inf", "9" * 400, "4.9e-324", "1/3",
)  # fmt: skip
PLACE = re.compile(r"(?<![\w.\"\[,-])[0-9]+(?:\.[0-9]+)?(?![-\d.])")
SMALL = (
    "fig10",
    "ring8",
    "dgx1",
    "h20_4p8",
    "v100_4p8_sharednic",
    "mi250_x1",
    "two_dc_50km",
    "h20_pods",
    "h20_16",
    "v100_fail_one4",
    "a100_x2",
    "ndv2_x4",
    "v100_4x3",
)
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("topo", "lint"),
    ("topo", "show"),
    ("topo", "ranks"),
    ("topo", "fmt"),
    ("topo", "convert"),
    ("topo", "export"),
    ("bounds",),
    ("bounds",),
    ("synth",),
    ("synth",),
    ("synth",),
    ("simulate",),
    ("simulate",),
    ("verify",),
    ("degrade",),
    ("repair",),
    ("atlas",),
    ("compare",),
)


def number(rng: random.Random) -> str:
    """Mostly one that can be read."""
    return rng.choice(READ if rng.random() < 0.88 else REFUSED)


def extreme(rng: random.Random, text: str, most: int = 3) -> str:
    """``text`` with some of its numbers replaced."""
    places = list(PLACE.finditer(text))
    for at in sorted(rng.sample(places, min(len(places), rng.randint(1, most))), key=lambda m: -m.start()):
        text = text[: at.start()] + number(rng) + text[at.end() :]
    return text


def cluster(rng: random.Random) -> str:
    """A topology: an example, a library with a cluster of its first node type, or one of the grammar."""
    kind = rng.random()
    if kind < 0.45:
        return extreme(rng, (EXAMPLES / rng.choice(SMALL) / "topo.dsl").read_text("utf-8"))
    if kind < 0.65:
        text = rng.choice(sorted((ROOT / "dsl" / "library").glob("*.dsl"))).read_text("utf-8")
        node = re.search(r"^node (\w+)", text, re.MULTILINE)
        tail = "cluster c { instance a[0-1] = %s\n fabric f { join *.nic*; latency 1 us } }\n"
        return extreme(rng, text + (tail % node[1] if node else ""))
    return extreme(rng, topology(rng).decode())


def quantity(rng: random.Random, units: str) -> str:
    """A number with one of ``units``."""
    return number(rng) + rng.choice(units.split())


def command(seed: int, folder: Path, seeds: Seeds) -> list[str]:
    """The arguments of the case ``seed``, whose files are written to ``folder``."""
    rng = random.Random(f"extreme {seed}")
    right = str(EXAMPLES / rng.choice(SMALL) / "topo.dsl")
    options = rng.random() < 0.4  # the extreme is an option, not a file
    file = folder / "t.dsl"
    file.write_text(cluster(rng), "utf-8")
    on = right if options else str(file)
    words = rng.choice(COMMANDS)
    sizes, times, rates = "B KB MB GB TB PB KiB", "ns us ms s", "GB/s Gbps MB/s B/s Tb/s"
    degraded = [f"--degrade=*.gpu0<->*.gpu1={quantity(rng, rates + ' %')}"]
    problem = [f"--coll={rng.choice(COLLECTIVE_NAMES)}"]
    stated = {
        "--chunks": number(rng), "--chunk-size": quantity(rng, sizes), "--tau-ref": quantity(rng, times),
        "--root": number(rng),
    }  # fmt: skip
    if rng.random() < 0.2:
        problem += ["--rounding", rng.choice(("floor", "nearest"))]
    budget = ["--time-budget=2"]
    searched = {
        "--effort": number(rng), "--seed": number(rng), "--max-peers": number(rng),
        "--size": quantity(rng, sizes), "--time-budget": rng.choice(REFUSED[2:]) + rng.choice(("s", "ms", "h")),
    }  # fmt: skip

    def some(table: dict[str, str], share: float = 0.5) -> list[str]:
        return [f"{name}={value}" for name, value in table.items() if options and rng.random() < share]

    if words[0] == "topo":
        more = {
            "convert": [["--to=block"], ["--to=paper"], ["--to=json"]],
            "export": [["--to=edges"]],
            "ranks": [[], [f"-o{folder / 'ranks'}"]],
            "show": [[], ["--all"], ["--json"], [f"--svg={folder / 'x.svg'}"]],
        }
        show = (
            some({"--chunk-size": stated["--chunk-size"], "--tau-ref": stated["--tau-ref"]})
            if words[1] == "show"
            else []
        )
        if words[1] == "fmt":
            on = str(file)
        return [
            *words,
            on,
            *rng.choice(more.get(words[1], [[], ["--json"]] if words[1] != "fmt" else [[]])),
            *show,
        ]
    if words[0] == "bounds":
        return ["bounds", on, *problem, *some(stated), *rng.choice(([], ["--check"]))]
    if words[0] == "degrade":
        searching = ["synth", right, *problem, *degraded, *budget, f"-o{folder / 'made'}"]
        return rng.choice((["bounds", right, *problem, *degraded], searching))
    schedule = folder / "s.schedule.json"
    text = rng.choice(seeds.schedules).decode()
    schedule.write_text(extreme(rng, text) if rng.random() < 0.4 else text)
    plan = folder / "p.json"
    text = rng.choice(seeds.plans).decode()
    plan.write_text(extreme(rng, text, 1) if rng.random() < 0.4 else text)
    program = folder / "x.xml"
    xml = rng.choice(seeds.programs).decode()
    share = rng.choice((0, 0, 0.002, 0.02))
    program.write_text(re.sub(r'"(\d+)"', lambda m: f'"{number(rng)}"' if rng.random() < share else m[0], xml))
    fig10 = str(EXAMPLES / "fig10" / "topo.dsl")
    read = str(rng.choice((schedule, plan, program)))
    if words[0] == "verify":
        return [
            "verify",
            read,
            *rng.choice(([], ["--topo", fig10], ["--topo", on], ["--target", rng.choice(list(TARGETS))])),
            *some({"--sms": number(rng), "--root": number(rng)}),
        ]
    if words[0] == "simulate":
        own = folder / "own.dsl"
        own.write_text(extreme(rng, (EXAMPLES / "fig10" / "topo.dsl").read_text("utf-8")))
        return [
            "simulate",
            read,
            str(rng.choice((own, fig10))),
            f"--size={quantity(rng, sizes)}",
            *rng.choice(([], degraded)),
            *rng.choice(([], ["--calibration=nccl"])),
        ]
    if words[0] == "repair":
        return [
            "repair",
            str(schedule),
            fig10,
            f"--degrade=*.gpu0<->*.gpu1={quantity(rng, rates + ' %')}",
            *budget,
            f"-o{folder / 'made'}",
        ]
    if words[0] == "atlas":
        return [
            "atlas",
            on,
            *problem,
            *some(stated),
            f"--sizes={quantity(rng, sizes) if options else '1MB'}",
            *budget,
            f"-o{folder / 'atlas'}",
        ]
    if words[0] == "compare":
        return [
            "compare",
            on,
            *problem,
            *some(stated),
            f"--sizes={quantity(rng, sizes) if options else '1MB'}",
            *budget,
        ]
    given = some(searched, 0.3)
    if not any("time-budget" in word for word in given):
        given += budget
    sized = [f"--size={quantity(rng, sizes)}"] if not options and rng.random() < 0.3 else []
    if any("--size" in word for word in given + sized):
        stated.pop("--chunk-size")
    return ["synth", on, *problem, *some(stated, 0.3), *given, *sized, f"-o{folder / 'made'}"]


def outcome(arguments: list[str]) -> str:
    """What a command did that it may not do, "" where that is nothing."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        said = io.StringIO()
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 2 * SECONDS, -1))
            resource.setrlimit(resource.RLIMIT_DATA, (GIGABYTES << 30, -1))
            with redirect_stdout(io.StringIO()), redirect_stderr(said):
                code = run(arguments)
            text = "" if code in (0, 1, 2, 3) and "Traceback" not in said.getvalue() else said.getvalue()[-600:]
            if code == 70 or text:
                text = f"exit code {code}: {text}"
        except BaseException:
            text = traceback.format_exc()[-600:]
        os.write(write, text.encode("utf-8", "backslashreplace")[:60000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        text = stream.read().decode()
    _, status, used = os.wait4(child, 0)
    if not text and status:
        text = f"ended by {status}"
    seconds = used.ru_utime + used.ru_stime
    return text or (f"{seconds:.0f} s" if seconds > SECONDS else "")


def main() -> None:
    """Print every case that has something wrong."""
    first, last = (int(word) for word in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "seeds").mkdir()
        seeds = write_seeds(Path(folder) / "seeds")
        for seed in range(first, last):
            own = Path(folder) / str(seed)
            own.mkdir()
            arguments = command(seed, own, seeds)
            began = time.monotonic()
            complaint = outcome(arguments)
            if complaint:
                print(
                    f"seed {seed}: {' '.join(arguments)} [{time.monotonic() - began:.0f} s]\n  {complaint}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
