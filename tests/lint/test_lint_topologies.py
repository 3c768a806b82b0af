"""``topo lint``: every rule fires where it should, and nowhere in what is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hetesynth.cli.topo import command
from hetesynth.model.diagnostics import Diagnostic, SourceError
from hetesynth.topology.language.library import library_names, library_path
from hetesynth.topology.language.source import Source, read_source
from hetesynth.topology.lint import RULES, lint

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILES = sorted(path for path in EXAMPLES.glob("*/*.dsl") if path.stem != "512x8")
LIBRARY = [path for path in map(library_path, library_names()) if path is not None]


def findings(text: str) -> list[Diagnostic]:
    return lint(Source("<text>", text))[0]


@pytest.mark.parametrize("path", [*FILES, *LIBRARY], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_examples_and_library_are_clean(path: Path) -> None:
    assert lint(read_source(path))[0] == []


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
    "a switch in bits": (FULL.replace("450 GB/s", "450 Gb/s"), "HS241", "nvswitch", "450 GB/s?"),
    "a NIC in bytes": (FULL.replace("400 Gbps", "400 GBps"), "HS241", "nic[0-3]", "did you mean 50 GB/s?"),
    "a slow fabric": (FULL.replace("1.3 us", "1.3 ms"), "HS242", "ib", "1300 us"),
    "a slot of an older generation": (
        MODEL.replace("nic[0-3] }", "nic[0-3] { bandwidth 31.5 GB/s } }"),
        "HS253", "nic[0-3]", "50 GB/s, and what joins it to GPUs carries 31.5 GB/s",
    ),
    "overlapping ranges": (FULL.replace("ports gpu[0-3]", "ports gpu[0-2], gpu[2-3]"), "HS243", "gpu[2", "gpu2"),
    "one direction": (
        "node m { gpus 4; mesh gpu[0-2] { bandwidth 25 GB/s } link gpu[0-1] <-> gpu3 { bandwidth 25 GB/s }\n"
        "link gpu2 -> gpu3 { bandwidth 25 GB/s } } cluster c { instance a = m }",
        "HS244", "gpus", "a link to `a.gpu3` and none back",
    ),
    "a switch that nothing crosses": (
        FULL.replace("gpus 4;", "gpus 4; mesh gpu[0-3] { bandwidth 25 GB/s }"), "HS245", "nvswitch", "switch"
    ),
    "no way back": (
        "node one { gpus 1 } cluster c { instance a[0-1] = one; link a0.gpu0 -> a1.gpu0 { bandwidth 25 GB/s } }",
        "HS245", "gpus", "`a1.gpu0`: no chain of links leads to `a0.gpu0`",
    ),
    "an import too many": ("import dgx1\n" + FULL, "HS246", "dgx1", "`dgx1`"),
    "both directions of NVLink": (
        MODEL.replace("450 GB/s", "900 GB/s"), "HS252", "gpus", "both directions together?"
    ),
    "two servers as one": (BIG, "HS254", "gpus", "at most 8"),
    "a fabric as fast as a NIC": (
        FULL.replace("*.nic*;", "*.nic*; bandwidth 50 GB/s;"), "HS255", "ib", "50 GB/s for NICs of 400 GB/s"
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
    "an argument in bits": (
        NVSWITCHES + "instance a[0-1] = h100x8(nvlink = 450 Gbps);" + ON_IB, "HS241", "a[0-1]", "450 GB/s?"
    ),
    "the missing link of two": (
        "node m { gpus 8; mesh gpu* { bandwidth 50 GB/s } detach gpu7 -> gpu0 }\ncluster c { instance a = m }",
        "HS240", "gpus", "`a.gpu0`, `a.gpu7`: 300 GB/s to the others",
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
    assert own[0].severity == "warning"


def test_every_rule_has_a_case_and_a_page() -> None:
    page = (EXAMPLES.parent / "docs" / "lint.md").read_text()
    assert {rule.code for rule in RULES} == {code for _, code, _, _ in CASES.values()}
    assert all(f"| {rule.code} | `{rule.name}` |" in page for rule in RULES)


def test_places_in_pods_and_loops() -> None:
    text = (
        "node tray { gpus 4; nic nic[0-3] { bandwidth 400 Gbps } attach gpu[0-3] -> nic[0-3] }\n"
        "pod rack(rate) { instance t[0-1] = tray { set nic* { bandwidth 400 GBps } }\n"
        "switch nvswitch { ports t*.gpu*; bandwidth (rate); kind nvlink }\n"
        "}\n"
        "cluster c { chunk 1 MB; for i in 0-1 { instance r[i] = rack(rate = 450 Gbps) }\n"
        "instance q = rack(rate = 810 GB/s)\n"
        "for k in 0-3 { fabric f_[k] { join *.*.nic[k]; latency (k * 1 ms) } } }"
    )
    told = {(f.span.line, f.code) for f in findings(text) if f.code in ("HS241", "HS242")}
    assert told == {(1, "HS241"), (3, "HS241"), (7, "HS242")}


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
    assert region["startLine"] == 1 and region["endColumn"] - region["startColumn"] == len("nvswitch")
    assert not log["runs"][1]["invocations"][0]["executionSuccessful"]


def test_a_type_whose_gpus_meet_outside_is_right(tmp_path: Path) -> None:
    """A tray of a rack: nothing in it joins its GPUs."""
    path = tmp_path / "tray.dsl"
    path.write_text("node tray { gpus 2; nic nic[0-1] { bandwidth 400 Gbps }; attach gpu[0-1] -> nic[0-1] }\n")
    assert lint(read_source(path))[0] == []
    path.write_text("node tray { gpus 2; nic nic[0-1] { bandwidth 400 Gbps }; attach gpu[0-2] -> nic[0-1] }\n")
    with pytest.raises(SourceError):
        lint(read_source(path))
