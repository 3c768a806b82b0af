"""``topo lint``: every rule fires where it should, and nowhere in what is right."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from hetesynth.cli.topo import command
from hetesynth.model.diagnostics import Diagnostic, SourceError
from hetesynth.search.chunking import LARGE_ROUNDING_ERROR, ChunkingOptions, chunk
from hetesynth.topology.language import parse_topology
from hetesynth.topology.language.library import library_names, library_path
from hetesynth.topology.language.source import Source, read_source
from hetesynth.topology.language.units import parse_quantity
from hetesynth.topology.lint import RULES, lint

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILES = sorted(path for path in EXAMPLES.glob("*/*.dsl") if path.stem != "512x8")
LIBRARY = [path for path in map(library_path, library_names()) if path is not None]
THRESHOLD = LARGE_ROUNDING_ERROR


def findings(text: str) -> list[Diagnostic]:
    return lint(Source("<text>", text))[0]


@pytest.mark.parametrize("path", [*FILES, *LIBRARY], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_examples_and_library_are_clean(path: Path) -> None:
    assert not [f for f in lint(read_source(path))[0] if f.severity != "note"]


SERVER = "node box {{ gpus 4; {inside} nic nic[0-3] {{ bandwidth 400 Gbps }} attach gpu[0-3] -> nic[0-3] }}\n"
SWITCH = "switch nvswitch { ports gpu[0-3]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }"
ALMOST = SWITCH.replace("[0-3]", "[0-2]") + " link gpu2 <-> gpu3 { bandwidth 16 GB/s }"
TWO = "cluster c { instance a[0-1] = box; fabric ib { join *.nic*; latency 1.3 us } }\n"
FULL = SERVER.format(inside=SWITCH) + TWO
MODEL = FULL.replace("gpus 4;", 'gpus 4; model "H100";')
BIG = MODEL.replace("0-3]", "0-15]").replace("gpus 4", "gpus 16")
NVSWITCHES = "import h100\ncluster c { "
ON_IB = " fabric ib { join *.nic*; latency 1.3 us } }"

CASES: dict[str, tuple[str, str, str, str]] = {  # text, code, the words it points at, part of message or help
    "a switch in bits": (FULL.replace("450 GB/s", "450 Gb/s"), "HS241", "450 Gb/s", "`450 GB/s`"),
    "a NIC in bytes": (FULL.replace("400 Gbps", "400 GBps"), "HS241", "400 GBps", "`400 Gbps`"),
    "a slow fabric": (FULL.replace("1.3 us", "1.3 ms"), "HS242", "1.3 ms", "`1.3 us`"),
    "a slot of an older generation": (
        MODEL.replace("nic[0-3] }", "nic[0-3] { bandwidth 31.5 GB/s } }"),
        "HS253", "nic[0-3]", "50 GB/s, and what joins it to GPUs carries 31.5 GB/s",
    ),
    "overlapping ranges": (FULL.replace("ports gpu[0-3]", "ports gpu[0-2], gpu[2-3]"), "HS243", "gpu[2", "gpu2"),
    "one direction": (
        "node m { gpus 4; mesh gpu[0-2] { bandwidth 25 GB/s } link gpu[0-1] <-> gpu3 { bandwidth 25 GB/s }\n"
        "link gpu2 -> gpu3 { bandwidth 25 GB/s } } cluster c { instance a = m }",
        "HS244", "gpus", "a.gpu2 -> a.gpu3",
    ),
    "a slot of eight lanes": (
        FULL.replace("cluster c {", "cluster c { set a*.nic3 { bandwidth 200 Gbps } "), "HS244", "nic", "x8 or x16"
    ),
    "a switch that nothing crosses": (
        FULL.replace("gpus 4;", "gpus 4; mesh gpu[0-3] { bandwidth 25 GB/s }"), "HS245", "nvswitch", "switch"
    ),
    "no way back": (
        "node one { gpus 1 } cluster c { instance a[0-1] = one; link a0.gpu0 -> a1.gpu0 { bandwidth 25 GB/s } }",
        "HS245", "c", "from a1.gpu0 to a0.gpu0",
    ),
    "an import too many": ("import dgx1\n" + FULL, "HS246", "dgx1", "`dgx1`"),
    "rounding": (FULL.replace("*.nic*;", "*.nic*; bandwidth 49 GB/s;"), "HS247", "c", "--"),
    "both directions of NVLink": (
        MODEL.replace("450 GB/s", "900 GB/s"), "HS252", "gpus", "is both directions together: state one, 450 GB/s"
    ),
    "two servers as one": (BIG, "HS254", "gpus", "at most 8"),
    "a fabric as fast as a NIC": (
        FULL.replace("*.nic*;", "*.nic*; bandwidth 50 GB/s;"), "HS255", "ib", "50 GB/s for 8 NICs of 400 GB/s"
    ),
    "a pair linked twice": (
        FULL.replace("gpus 4;", "gpus 4; mesh gpu* { bandwidth 25 GB/s } link gpu0 -> gpu1 { bandwidth 50 GB/s }"),
        "HS256", "gpus", "linked with `gpu1` 2 times: 25 GB/s and 50 GB/s",
    ),
    "rails crossed": (
        FULL.replace("*.nic*; latency 1.3 us } }", "a0.nic[i], a1.nic[((i+1) % 4)] } } }").replace(
            "fabric ib", "for i in 0-3 { fabric r[i]"
        ),
        "HS257", "nic", "nic0 to `r3`, not `r0`",
    ),
    "unlike servers": (
        FULL.replace("cluster c {", "cluster c { set a0.nic* { bandwidth 200 Gbps } "), "HS248", "c", "`a0`; `a1`"
    ),
    "one instance of two": (
        FULL.replace("a[0-1] = box", "a[2] = box; instance b = box"), "HS251", "a[2]", "`a[0-1]`"
    ),
    "an argument in bits": (
        NVSWITCHES + "instance a[0-1] = h100x8(nvlink = 450 Gbps);" + ON_IB, "HS241", "450 Gbps", "`450 GBps`"
    ),
    "one link of three in bits": (
        "node m { gpus 3; link gpu0 <-> gpu1 { bandwidth 25 GB/s } link gpu1 <-> gpu2 { bandwidth 25 GB/s }\n"
        "link gpu0 <-> gpu2 { bandwidth 3.125 GB/s } } cluster c { instance a = m }",
        "HS241", "3.125 GB/s", "an eighth of what others like it have (25 GB/s)",
    ),
    "the missing link of two": (
        "node m { gpus 8; mesh gpu* { bandwidth 50 GB/s } detach gpu7 -> gpu0 }\ncluster c { instance a = m }",
        "HS240", "gpus", "gpu0 300 GB/s, gpu7 300 GB/s",
    ),
    "a virtual bridge": (
        SERVER.format(inside="bus pcie { members gpu[0-3]; bandwidth 0.19 GB/s; kind pcie }") + TWO,
        "HS249", "0.19 GB/s", "24 GB/s",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rule_fires_at_the_words(name: str) -> None:
    text, code, words, part = CASES[name]
    own = [finding for finding in findings(text) if finding.code == code]
    assert own
    line = text.splitlines()[own[0].span.line - 1]
    assert line[own[0].span.column - 1 :].startswith(words)
    assert part in own[0].message + own[0].help
    notes = ("rounding", "unlike servers", "unlike directions", "a slot of eight lanes", "one instance of two")
    assert own[0].severity == ("note" if name in notes else "warning")


def test_every_rule_has_a_case_and_a_page() -> None:
    page = (EXAMPLES.parent / "docs" / "lint.md").read_text()
    assert {rule.code for rule in RULES} == {code for _, code, _, _ in CASES.values()}
    assert all(f"| {rule.code} | `{rule.name}` |" in page for rule in RULES)


def test_links_of_other_kinds_are_not_compared() -> None:
    text = (
        "link gpu0 <-> gpu1 { bandwidth 100 GB/s; kind xgmi } link gpu1 <-> gpu2 { bandwidth 100 GB/s; kind xgmi }"
    )
    text += "link gpu0 <-> gpu2 { bandwidth 12.5 GB/s; kind %s }"
    for kind, codes in (("qpi", set()), ("xgmi", {"HS241"})):
        own = findings(f"node m {{ gpus 3; {text % kind} }}\ncluster c {{ instance a = m }}")
        assert {finding.code for finding in own} - {"HS247"} == codes


def test_places_in_pods_and_loops() -> None:
    text = (
        "node tray { gpus 4; nic nic[0-3] { bandwidth 400 Gbps } attach gpu[0-3] -> nic[0-3] }\n"
        "pod rack(rate) { instance t[0-1] = tray { set nic* { bandwidth 400 GBps } }\n"
        "switch nvswitch { ports t*.gpu*; bandwidth (rate); kind nvlink }\n"
        "degrade t0.nic0 to 50 Mbps }\n"
        "cluster c { chunk 1 MB; for i in 0-1 { instance r[i] = rack(rate = 450 Gbps) }\n"
        "instance q = rack(rate = 810 GB/s)\n"
        "for k in 0-3 { fabric f_[k] { join *.*.nic[k]; latency (k * 1 ms) } } }"
    )
    told = [(f.span.line, f.code) for f in findings(text) if f.code in ("HS241", "HS242")]
    assert told == [(2, "HS241"), (4, "HS241"), (5, "HS241"), (7, "HS242")]


def worst(text: str, options: ChunkingOptions) -> Fraction:
    error = chunk(parse_topology(text), options).worst_error()
    assert error is not None
    return abs(error.error)


@pytest.mark.parametrize("rate", ["49 GB/s", "45 GB/s", "33 GB/s", "27 GB/s", "51 GB/s", "24.9 GB/s", "7 GB/s"])
@pytest.mark.parametrize("latency", ["0.7 us", "0 us", "3.3 us"])
def test_what_is_suggested_mends_it(rate: str, latency: str) -> None:
    """The text of the help, read as the command line reads it, gives errors below the threshold."""
    text = FULL.replace("*.nic*;", f"*.nic*; bandwidth {rate};").replace("0.7 us", latency)
    own = [finding for finding in findings(text) if finding.code == "HS247"]
    assert bool(own) == (worst(text, ChunkingOptions()) > THRESHOLD)
    for finding in own:
        option = re.search(r"--(rounding|tau-ref) (\S+):", finding.help)
        assert option is not None
        options = (
            ChunkingOptions(rounding=option[2])  # type: ignore[arg-type]
            if option[1] == "rounding"
            else ChunkingOptions(reference=parse_quantity(option[2], "time", "--tau-ref"))
        )
        assert worst(text, options) <= THRESHOLD


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, ["lint", *arguments], standalone_mode=False)
    return int(result.return_value or 0), result.output


def test_exit_codes_and_documents(tmp_path: Path) -> None:
    good, doubtful, wrong = (tmp_path / name for name in ("good.dsl", "doubtful.dsl", "wrong.dsl"))
    good.write_text(FULL)
    doubtful.write_text(FULL.replace("450 GB/s", "450 Gb/s"))
    wrong.write_text("cluster c {}")
    assert run(str(good), "--strict") == (0, f"{good}: ok\n")
    assert run(str(doubtful))[0] == 0
    assert run(str(doubtful), str(good), "--strict")[0] == 1
    code, text = run(str(good), str(wrong), "--json")
    document = json.loads(text)
    assert code == 2 and not document["ok"]
    assert [f["findings"][0]["code"] for f in document["files"] if f["findings"]] == ["HS200"]
    log = json.loads(run(str(doubtful), str(wrong), "--sarif")[1])
    region = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert region["startLine"] == 1 and region["endColumn"] - region["startColumn"] == len("450 Gb/s")
    assert not log["runs"][1]["invocations"][0]["executionSuccessful"]


def test_a_type_whose_gpus_meet_outside_is_right(tmp_path: Path) -> None:
    """A tray of a rack: nothing in it joins its GPUs."""
    path = tmp_path / "tray.dsl"
    path.write_text("node tray { gpus 2; nic nic[0-1] { bandwidth 400 Gbps }; attach gpu[0-1] -> nic[0-1] }\n")
    assert lint(read_source(path))[0] == []
    path.write_text("node tray { gpus 2; nic nic[0-1] { bandwidth 400 Gbps }; attach gpu[0-2] -> nic[0-1] }\n")
    with pytest.raises(SourceError):
        lint(read_source(path))
