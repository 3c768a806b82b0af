"""Sizes, flushes, semaphores and remote buffers of plans: what the runtime can address and what it counts."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plan_builders import exchange, gpu, pair, plan

from hetesynth.cli.main import run
from hetesynth.judge.mscclpp.judge import largest_message, open_range_violations, plan_violations, size_violations
from hetesynth.judge.mscclpp.reader import load_plan
from hetesynth.judge.rules import Findings
from hetesynth.model.plan import LocalSlice, Plan

FIXTURES = Path(__file__).parent / "fixtures" / "plans"
GOLDEN = Path(__file__).parents[1] / "lowering" / "golden" / "mscclpp_allgather_pair.json"
GIB = 2**30


def data() -> Path:
    given = os.environ.get("HETESYNTH_CONFORMANCE")
    return Path(given) if given else Path(__file__).parents[3] / "shared" / "data"


def rules(found: Plan) -> set[str | None]:
    return {v.rule for v in plan_violations(found)}


def sized(most: int, least: int = 0, **changes: Any) -> Plan:
    """An allgather of two ranks, whose message is the output: two chunks, as input one, as scratch two."""
    gpus = tuple(replace(g, **changes) for g in pair(exchange(0)).gpus)
    return replace(pair(exchange(0)), gpus=gpus, min_bytes=least, max_bytes=most)


def test_an_open_range_is_told_apart_from_a_stated_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a target it stands, as programs do that fail with large chunks only; with the target it does not."""
    assert plan_violations(sized(2**64 - 1)) == []
    assert [v.rule for v in open_range_violations(sized(2**64 - 1))] == ["HX821"]
    assert open_range_violations(sized(8 * GIB)) == []
    assert rules(sized(2**64 - 1, 4 * GIB)) == {"HX821"}
    values = json.loads(GOLDEN.read_bytes())
    del values["max_message_size"]
    file = tmp_path / "open.json"
    file.write_text(json.dumps(values))
    assert run(["verify", str(file), "--json"]) == 0
    assert [v["rule"] for v in json.loads(capsys.readouterr().out)["warnings"]] == ["HX821"]
    assert run(["verify", str(file), "--target", "mscclpp", "--json"]) == 1
    assert [v["rule"] for v in json.loads(capsys.readouterr().out)["violations"]] == ["HX821"]
    assert run(["verify", str(file), "--portable"]) == 1
    assert run(["verify", str(GOLDEN), "--target", "mscclpp"]) == 0


def test_a_flush_does_as_many_channels_as_it_has_targets() -> None:
    short = load_plan(FIXTURES / "flush_without_targets.json")
    assert rules(short) == {"HX855"}
    operations = exchange(0, "port")
    for count, right in ((0, False), (1, True), (2, True), (9, False)):
        flush = replace(operations[-1], dst=(LocalSlice("o", 0, 1),) * count)
        assert (rules(pair([*operations[:-1], flush], "port")) == set()) == right, count


EXPECTED = {
    "17_flush_one_short": "HX855",
    "flush_without_dst_buff": "HX855",
    "single_node_alltoall_alltoall_ring": None,
    "fuzz/remote_buffer_index": "HX817",
}


@pytest.mark.skipif(not (data() / "defects").is_dir(), reason="no conformance data")
@pytest.mark.parametrize("name", EXPECTED)
def test_plans_of_others(name: str) -> None:
    read = load_plan(data() / "defects" / f"{name}.json")
    links = {(a, b) for a in range(read.ranks) for b in range(read.ranks) if a != b}
    found = {v.rule for v in plan_violations(read, links=links)}
    assert EXPECTED[name] in found if EXPECTED[name] else not found


def buffers(*chunks: tuple[int, int, int], name: str = "allgather", **changes: Any) -> Plan:
    """GPUs that do nothing, with so many chunks of input, output and scratch."""
    return replace(plan(*(gpu(r, i=i, o=o, s=s) for r, (i, o, s) in enumerate(chunks)), name=name), **changes)


LL = {"protocol": "LL"}
DOUBLE = {"double_scratch": True}


@pytest.mark.parametrize(
    ("made", "chunk", "step", "where"),
    [
        (buffers((1, 1, 0), name="allreduce"), 4 * GIB - 16, 16, "gpu 0: output"),
        (buffers((1, 1, 0), name="allreduce", alignment=1), 4 * GIB - 1, 1, "gpu 0: output"),
        (buffers((7, 7, 0), name="allreduce", alignment=1), 4 * GIB - 4, 7, "gpu 0: output"),
        (buffers((1, 1, 0), name="allreduce", alignment=0), 4 * GIB - 1, 1, "gpu 0: output"),
        (buffers((0, 1, 0), name="allreduce"), 4 * GIB - 16, 16, "gpu 0: output"),
        (buffers((2, 1, 0), name="reducescatter"), 4 * GIB - 32, 32, "gpu 0: input"),
        (buffers((2, 2, 0), (4, 2, 0), name="scatter"), 4 * GIB - 64, 64, "gpu 1: input"),
        (buffers((1, 2, 0), (1, 2, 0)), 4 * GIB - 32, 32, "gpu 0: output"),
        (buffers((1, 1, 1), (1, 1, 4), name="allreduce"), GIB - 16, 16, "gpu 1: scratch"),
        (buffers((1, 1, 2), name="allreduce", **LL), GIB - 16, 16, "gpu 0: scratch"),
        (buffers((1, 1, 2), name="allreduce", **DOUBLE), GIB - 16, 16, "gpu 0: scratch"),
        (buffers((1, 1, 2), name="allreduce", **LL, **DOUBLE), GIB // 2 - 16, 16, "gpu 0: scratch"),
    ],
)  # fmt: skip
def test_the_last_size_that_fits_and_the_buffer_that_ends_it(
    made: Plan, chunk: int, step: int, where: str
) -> None:
    def said(most: int) -> list[str]:
        findings = Findings()
        size_violations(replace(made, max_bytes=most), findings)
        return [found.message for found in findings.violations]

    rank, name = where.split(": ")
    too_large = (
        f"lets its {name} buffer grow to 4 GiB and more, past offsets of 32 bits, where chunks overwrite each"
    )
    safe = f"other; messages of up to {chunk} bytes are safe"
    assert largest_message(made) == chunk
    assert said(chunk) == said(chunk + step - 1) == []
    assert said(chunk + step) == [f"{rank}: max_message_size {chunk + step} {too_large} {safe}"]
    assert said(2**64 - 1) == [f"{rank}: an open max_message_size {too_large} {safe}"]


@pytest.mark.parametrize(("options", "chunk"), [({}, 2**25), (LL, 2**24), ({**LL, **DOUBLE}, 2**23)])
def test_scratch_of_reused_resources_has_64_mebibytes(options: dict[str, Any], chunk: int) -> None:
    made = buffers((1, 1, 2), name="allreduce", reuse_resources=True, **options)
    assert largest_message(made) == chunk
    for most in (chunk, chunk + 16):
        findings = Findings()
        size_violations(replace(made, max_bytes=most), findings)
        assert bool(findings.violations) == (most > chunk)
