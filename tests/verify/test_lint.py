"""The linter target by target: what the reader takes, what runs, and what the rules say of themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from program_builders import block, chain_reducescatter, program, ring_allgather, step, to_xml, with_step
from support.verdicts import XML_TARGETS, acceptance

from hetesynth.judge.msccl.linter import lint, lint_targets
from hetesynth.judge.msccl.reader import ReadResult, read_program
from hetesynth.judge.rules import BY_ID, RULES
from hetesynth.model.program import GpuProgram, Program
from hetesynth.model.target import TARGETS

GOOD = ring_allgather(4, False)


def _read(p: Program, *edits: tuple[str, str]) -> ReadResult:
    text = to_xml(replace(p, max_bytes=p.max_bytes or 2**30)).decode()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return read_program(text.encode(), "x.xml")


def _rules(read: ReadResult, target: str, **options: int) -> set[str]:
    found = lint(read, TARGETS[target], sms=options.get("sms"))
    return {BY_ID[v.rule or ""].name for v in found}


def test_a_good_file_is_good_everywhere() -> None:
    for verdict in lint_targets(_read(GOOD), [TARGETS[name] for name in XML_TARGETS]):
        assert verdict.acceptance == "accepted"
        assert verdict.violations == ()


METADATA = [
    ((' name="allgather"', ""), {"msccl", "portable"}, "metadata-missing"),
    ((' minBytes="0"', ""), {"rccl-6", "rccl-5", "msccl-executor", "portable"}, "metadata-missing"),
    ((' outofplace="1"', ""), {"rccl-6", "rccl-5", "msccl-executor", "portable"}, "metadata-missing"),
    (
        ('coll="allgather"', 'coll="custom"'),
        {"rccl-6", "rccl-5", "msccl-executor", "nccl-device", "portable"},
        "collective-refused",
    ),
    (('maxBytes="1073741824"', 'maxBytes="0"'), {"msccl", "portable"}, "never-selected"),
    (
        ('minBytes="0"', 'minBytes="1073741825"'),
        {"rccl-6", "rccl-5", "msccl-executor", "nccl-device"},
        "never-selected",
    ),
    (('minBytes="0"', 'minBytes="1073741825"'), {"msccl", "portable"}, "min-above-max"),
    (('minBytes="0"', 'minBytes="1073741824"'), {"msccl"}, "never-selected"),
    (('outofplace="1"', 'outofplace="0"'), set(XML_TARGETS), "never-selected"),
    (('proto="Simple"', 'proto="simple"'), set(XML_TARGETS), "bad-protocol"),
    (('coll="allgather"', 'coll="allgather" nthreads="100"'), {"msccl", "portable"}, "bad-nthreads"),
]


def test_a_number_of_threads_without_end_is_reported() -> None:
    edit = 'coll="allgather"', f'coll="allgather" nthreads="{"9" * 5000}"'
    assert "bad-nthreads" in _rules(_read(GOOD, edit), "msccl")


def test_a_file_without_gpus_lacks_each_of_them() -> None:
    assert "missing-gpu" in _rules(_read(replace(GOOD, gpus=(), channels=1)), "msccl")


@pytest.mark.parametrize(
    ("edit", "concerned", "rule"),
    METADATA,
    ids=lambda x: str(sorted(x) if isinstance(x, set | frozenset) else x)[:60],
)
def test_what_a_reader_demands_of_the_root(edit: tuple[str, str], concerned: set[str], rule: str) -> None:
    read = _read(GOOD, edit)
    assert {name for name in XML_TARGETS if rule in _rules(read, name)} == concerned
    for name in concerned:
        assert (acceptance(read, TARGETS[name]) == "refused") == (RULES[rule].stage == "read")


def test_fused_receives_are_taken_and_not_launched() -> None:
    read = _read(chain_reducescatter(4, False))
    assert acceptance(read, TARGETS["rccl-6"]) == "accepted"
    assert _rules(read, "rccl-6") == {"op-refused"}
    assert _rules(read, "rccl-5") == _rules(read, "msccl-executor") == set()


def _sends_first(count: int, protocol: str) -> Program:
    """Both GPUs send ``count`` chunks in one step and only then receive."""
    gpus = []
    for r in range(2):
        own = r * count
        move = block(0, 1 - r, 1 - r, step("s", "i0", f"o{own}", count), step("r", "i0", f"o{count - own}", count))
        gpus.append(
            GpuProgram(r, count, 2 * count, 0, (move, block(1, None, None, step("cpy", "i0", f"o{own}", count))))
        )
    return program("allgather", 2 * count, gpus, protocol=protocol)  # type: ignore[arg-type]


AMD, NVIDIA = ("rccl-6", "rccl-5", "portable"), ("msccl-executor",)
LENGTHS = [
    ("LL", 16 << 10, AMD), ("LL", 32 << 10, NVIDIA), ("LL128", 50_176, AMD), ("LL128", 576_000, NVIDIA),
    ("Simple", 2 << 20, (*AMD, *NVIDIA)),
]  # fmt: skip


@pytest.mark.parametrize(("protocol", "message", "names"), LENGTHS)
def test_a_split_message_is_an_error_where_some_call_leads_to_it(
    protocol: str, message: int, names: tuple[str, ...]
) -> None:
    """Chunks hang sent singly; in messages of two they do not. Without a limit they may be of any size."""
    count = 3 if protocol == "Simple" else 9
    for high, hangs in ((count * message, False), (count * (message + 2), True), (0, True)):
        read = _read(replace(_sends_first(count, protocol), max_bytes=high))
        for name in names if high else NVIDIA:
            assert _rules(read, name) == ({"split-deadlock"} if hangs else set()), (name, high)
            assert acceptance(read, TARGETS[name]) == "accepted"


SPLITS = Path(__file__).parent / "fixtures" / "splits"


@pytest.mark.parametrize(
    ("name", "hanging"),
    [
        ("split_broadcast", {"portable", "rccl-6", "rccl-5", "msccl-executor", "msccl"}),
        ("split_ll", {"portable", "rccl-6", "rccl-5"}),
        ("split_ll128", {"portable", "rccl-6", "rccl-5"}),
    ],
)
def test_files_that_hang_once_messages_split(name: str, hanging: set[str]) -> None:
    read = read_program((SPLITS / f"{name}.xml").read_bytes(), name)
    assert {target for target in XML_TARGETS if "split-deadlock" in _rules(read, target)} == hanging


def test_a_broadcast_packs_no_more_than_half_a_mebibyte() -> None:
    text = (SPLITS / "split_broadcast.xml").read_text()
    for largest, hangs in ((6 * (256 << 10), False), (6 * (256 << 10) + 6, True)):
        read = read_program(text.replace('maxBytes="6291456"', f'maxBytes="{largest}"').encode(), "x")
        assert ("split-deadlock" in _rules(read, "rccl-6")) is hangs


def test_a_lost_dependence_is_refused_and_a_bare_nop_is_not() -> None:
    text = to_xml(replace(GOOD, max_bytes=100))
    lines = text.splitlines(keepends=True)
    at = next(k for k, line in enumerate(lines) if b'type="r"' in line)
    nop = b'<step s="0" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" '
    nop += b'depid="%d" deps="0" hasdep="0"/>'
    bare = read_program(b"".join([*lines[:at], nop % -1, *lines[at:]]), "x")
    lost = read_program(b"".join([*lines[:at], nop % 2, *lines[at:]]), "x")
    for name in XML_TARGETS:
        assert acceptance(bare, TARGETS[name]) == "accepted"
        assert "nop-without-dependence" in _rules(bare, name)
        assert acceptance(lost, TARGETS[name]) == "refused"
        assert "nop-dependence-lost" in _rules(lost, name)


def test_a_refusal_is_told_even_among_very_many_other_findings() -> None:
    p = GOOD
    for rank in range(4):
        for s in range(3):
            p = with_step(p, rank, 0, s, count=2)
    gpus = [replace(g, thread_blocks=g.thread_blocks * 20) for g in p.gpus]
    read = _read(replace(p, gpus=tuple(gpus)), ('name="allgather"', 'name="x" nthreads="1"'))
    found = lint(read, TARGETS["msccl"])
    assert len(found) <= 50
    assert acceptance(read, TARGETS["msccl"]) == "refused"
    assert "bad-nthreads" in {BY_ID[v.rule or ""].name for v in found}
