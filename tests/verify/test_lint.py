"""The linter target by target: what the reader takes, what runs, and what the rules say of themselves."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest
from program_builders import (
    block,
    chain_reducescatter,
    direct_alltoall,
    edited,
    good_programs,
    program,
    ring_allgather,
    step,
    to_xml,
    with_step,
)
from support.verdicts import XML_TARGETS, acceptance

import hetesynth.judge.msccl
from hetesynth.judge.msccl.judge import large_message_violations, notes, program_violations
from hetesynth.judge.msccl.lint_readers import READERS
from hetesynth.judge.msccl.linter import call_warnings, lint, lint_targets, network_violations
from hetesynth.judge.msccl.reader import ReadResult, read_program
from hetesynth.judge.msccl.rules import BY_ID, RULES
from hetesynth.model.program import GpuProgram, Program, ThreadBlock
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
        {"rccl-6", "rccl-5", "msccl-executor", "portable"},
        "collective-refused",
    ),
    (('maxBytes="1073741824"', 'maxBytes="0"'), {"msccl", "portable"}, "never-selected"),
    (('minBytes="0"', 'minBytes="1073741825"'), {"rccl-6", "rccl-5", "msccl-executor"}, "never-selected"),
    (('minBytes="0"', 'minBytes="1073741825"'), {"msccl", "portable"}, "min-above-max"),
    (('minBytes="0"', 'minBytes="1073741824"'), {"msccl"}, "never-selected"),
    (('outofplace="1"', 'outofplace="0"'), set(XML_TARGETS), "never-selected"),
    (('proto="Simple"', 'proto="simple"'), set(XML_TARGETS), "bad-protocol"),
    (('coll="allgather"', 'coll="allgather" nthreads="100"'), {"msccl", "portable"}, "bad-nthreads"),
]


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


def test_the_spelling_of_reducescatter() -> None:
    plain = chain_reducescatter(4, False)
    assert "collective-refused" in _rules(_read(plain), "msccl")
    other = _read(plain, ('coll="reducescatter"', 'coll="reduce_scatter"'))
    assert _rules(other, "msccl") == set()
    assert {name for name in XML_TARGETS if "collective-refused" in _rules(other, name)} == set(XML_TARGETS) - {
        "msccl"
    }


def test_gather_and_scatter_are_portable_among_those_that_have_them() -> None:
    for name in ("gather_3", "scatter_3"):
        read = _read(good_programs()[name])
        assert {t for t in XML_TARGETS if _rules(read, t)} == {"msccl", "msccl-executor"}
        assert acceptance(read, TARGETS["msccl-executor"]) == "accepted"
        assert _rules(read, "msccl-executor") == {"never-selected"}  # that library has no such call
        portable = [BY_ID[v.rule or ""].name for v in call_warnings(read, TARGETS["portable"])]
        assert portable == ["any-root", "never-selected"]


def test_what_is_right_for_one_root_is_run_for_every_root() -> None:
    read = _read(good_programs()["broadcast_3"])
    for name in XML_TARGETS:
        told = call_warnings(read, TARGETS[name])
        assert _rules(read, name) <= {"op-refused"} and [v.rule for v in told] == [RULES["any-root"].id], name
        assert "whatever its root" in told[0].message and told[0].line == 1
    assert call_warnings(_read(GOOD), TARGETS["rccl-6"]) == []


def test_the_research_runtime_runs_alltoall_out_of_place_whatever_the_file_says() -> None:
    p = replace(direct_alltoall(3), in_place=True, out_of_place=False)
    told = {name for name in XML_TARGETS if "in-place-ignored" in _rules(_read(p), name)}
    assert told == {"msccl"}
    assert _rules(_read(direct_alltoall(3)), "msccl") == set()


def test_fused_receives_are_taken_and_not_launched() -> None:
    read = _read(chain_reducescatter(4, False))
    assert acceptance(read, TARGETS["rccl-6"]) == "accepted"
    assert _rules(read, "rccl-6") == {"op-refused"}
    assert _rules(read, "rccl-5") == _rules(read, "msccl-executor") == set()


def _copies(blocks: int) -> Program:
    """Two GPUs exchange their chunk; further thread blocks copy a scratch chunk each onto itself."""
    gpus = []
    for r in range(2):
        tbs = [
            block(0, 1 - r, 1 - r, step("s", "i0", f"o{r}"), step("r", "i0", f"o{1 - r}")),
            block(1, None, None, step("cpy", "i0", f"o{r}")),
            *(block(k, None, None, step("cpy", "i0", f"s{k}")) for k in range(2, blocks)),
        ]
        gpus.append(GpuProgram(r, 1, 2, blocks, tuple(tbs)))
    return program("allgather", 2, gpus)


def _for(names: tuple[str, ...], rules: set[str]) -> dict[str, set[str]]:
    return dict.fromkeys(names, rules)


@pytest.mark.parametrize(
    ("blocks", "sms", "expected"),
    [
        (64, None, {}),
        (65, None, _for(("portable", "rccl-6", "rccl-5"), {"thread-block-limit"})),
        (108, 200, _for(("portable", "rccl-6", "rccl-5"), {"thread-block-limit"})),
        (
            109,
            None,
            {
                **_for(("portable", "rccl-6", "rccl-5"), {"thread-block-limit", "co-residency"}),
                **_for(("msccl-executor", "msccl"), {"co-residency"}),
            },
        ),
        (64, 63, _for(XML_TARGETS, {"co-residency"})),
    ],
)
def test_thread_blocks_must_be_there_at_once(blocks: int, sms: int | None, expected: dict[str, set[str]]) -> None:
    read = _read(_copies(blocks))
    for name in XML_TARGETS:
        found = {BY_ID[v.rule or ""].name for v in lint(read, TARGETS[name], sms=sms)}
        assert found == expected.get(name, set()), name
    assert bool(program_violations(read, sms=63)) == (blocks > 63)


def _numbered(read: bytes, change: str) -> ReadResult:
    return read_program(read.replace(b' s="1"', b" " + change.encode(), 1), "x")


def test_a_step_number_out_of_room_is_refused_but_too_many_steps_crash() -> None:
    text = to_xml(replace(direct_alltoall(3), max_bytes=100))
    for number, concerned in ((63, set()), (64, set(XML_TARGETS) - {"msccl"}), (256, set(XML_TARGETS))):
        read = _numbered(text, f's="{number}"')
        assert {n for n in XML_TARGETS if acceptance(read, TARGETS[n]) == "refused"} == concerned
    long = edited(_copies(3), 0, 2, lambda tb: replace(tb, instructions=tb.instructions * 80))
    zeros = read_program(re.sub(rb' s="[0-9]+"', b' s="0"', to_xml(long)), "x")
    assert {n for n in XML_TARGETS if acceptance(zeros, TARGETS[n]) == "crashes"} == set(XML_TARGETS) - {"msccl"}
    negative = _numbered(text, 's="-1"')
    assert all("step-number" in _rules(negative, name) for name in XML_TARGETS)


def test_the_channel_after_the_last_passes_the_check_of_every_reader() -> None:
    """All compare with the number of channels. What then happens depends on what lies behind their table: in the
    research runtime the fields of the same structure, elsewhere whatever the heap holds."""

    def moved(channel: int, idle_only: bool = False) -> ReadResult:
        p = replace(GOOD, channels=channel + 1)
        gpus = [
            replace(
                g,
                thread_blocks=tuple(
                    b if idle_only and (b.send_peer, b.recv_peer) != (None, None) else replace(b, channel=channel)
                    for b in g.thread_blocks
                ),
            )
            for g in p.gpus
        ]
        return _read(replace(p, gpus=tuple(gpus)))

    for name, last in (("msccl", 31), ("msccl-executor", 31), ("rccl-5", 31), ("rccl-6", 127), ("portable", 31)):
        assert _rules(moved(last), name) == set()
        beyond = _rules(moved(last + 1), name)
        if name == "msccl":
            assert acceptance(moved(last + 1), TARGETS[name]) == "accepted"
            assert beyond == {"channel-overflow", "channels-limit"}
        else:
            assert acceptance(moved(last + 1), TARGETS[name]) == "refused"
            assert beyond == {"channel-past-table", "channel-crash", "channels-limit"}
            idle = moved(last + 1, idle_only=True)
            assert acceptance(idle, TARGETS[name]) == "crashes"
            assert _rules(idle, name) == {"channel-crash", "channels-limit"}
        assert acceptance(moved(last + 2), TARGETS[name]) == "refused"
        assert _rules(moved(last + 2), name) == {"channel-limit", "channels-limit"}


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


@pytest.mark.parametrize(
    ("count", "protocol", "hangs"),
    [(1, "Simple", False), (2, "Simple", False), (3, "Simple", True), (8, "LL", False), (9, "LL128", True)],
)
def test_messages_that_split_fill_the_fifo(count: int, protocol: str, hangs: bool) -> None:
    p = _sends_first(count, protocol)
    assert program_violations(p) == []
    found = large_message_violations(p)
    assert {BY_ID[v.rule or ""].name for v in found} == ({"split-deadlock"} if hangs else set())
    assert all("step 0" in v.message and v.step == 0 for v in found)


CHUNK = 1 << 20  # bytes; a message of Simple carries two of them


@pytest.mark.parametrize(
    ("protocol", "count", "high", "hangs"),
    [
        ("Simple", 3, 0, True),  # no limit: chunks may be of any size
        ("Simple", 3, 4 * CHUNK, False),  # three chunks in a message
        ("Simple", 3, 6 * CHUNK, False),  # two in a message, two messages
        ("Simple", 3, 6 * CHUNK + 6, True),  # three messages
    ],
)
def test_a_split_message_is_an_error_where_some_call_leads_to_it(
    protocol: str, count: int, high: int, hangs: bool
) -> None:
    read = _read(replace(_sends_first(count, protocol), max_bytes=high))
    for name in ("rccl-6", "rccl-5", "msccl-executor"):
        found = lint(read, TARGETS[name])
        assert {BY_ID[v.rule or ""].name for v in found} == ({"split-deadlock"} if hangs else set())
        assert acceptance(read, TARGETS[name]) == "accepted"


AMD, NVIDIA = ("rccl-6", "rccl-5", "portable"), ("msccl-executor",)
LENGTHS = [("LL", 16 << 10, AMD), ("LL", 32 << 10, NVIDIA), ("LL128", 50_176, AMD), ("LL128", 576_000, NVIDIA)]


@pytest.mark.parametrize(("protocol", "message", "names"), LENGTHS)
def test_messages_of_low_latency_protocols_are_as_long_as_the_runtime_makes_them(
    protocol: str, message: int, names: tuple[str, ...]
) -> None:
    """Nine chunks hang sent singly; in messages of two they do not."""
    for chunk, hangs in ((message // 2, False), (message // 2 + 1, True)):
        read = _read(replace(_sends_first(9, protocol), max_bytes=18 * chunk))
        for name in names:
            assert _rules(read, name) == ({"split-deadlock"} if hangs else set()), (name, chunk)


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


def test_over_nics_a_simple_broadcast_is_told_of() -> None:
    read = read_program((SPLITS / "split_broadcast.xml").read_bytes(), "x")
    assert read.program is not None
    (unknown,) = network_violations(read.program, [])
    assert unknown.rule == RULES["network-steps"].id and "between servers" in unknown.message
    (known,) = network_violations(read.program, [TARGETS["msccl"]], ("a", "a", "b"))
    assert "from rank 0 to rank 2 (and 2 more pairs between servers)" in known.message
    assert network_violations(read.program, [TARGETS["rccl-6"]], ("a", "a", "a")) == []
    assert network_violations(replace(read.program, protocol="LL"), [TARGETS["rccl-6"]]) == []
    assert network_violations(replace(read.program, collective="allreduce"), [TARGETS["rccl-6"]]) == []


@pytest.mark.parametrize("name", sorted(good_programs()))
@pytest.mark.parametrize("slots", [1, 2])
def test_singly_sent_chunks_are_the_worst_split(name: str, slots: int) -> None:
    """Programs of single chunks have nothing to split, whatever the slots."""
    assert large_message_violations(good_programs()[name], slots=slots) == []


def _reductions(count: int, split_at: int | None = None) -> Program:
    """One GPU adds ``count`` scratch copies; another rank does the same."""
    p = _copies(3)

    def change(tb: ThreadBlock) -> ThreadBlock:
        steps = [step("re", "s2", "s0", on=(0, 0) if s == split_at else None) for s in range(count)]
        return replace(tb, instructions=tuple(steps))

    return edited(p, 0, 2, change)


def test_runs_of_reductions() -> None:
    names = {n: [BY_ID[v.rule or ""].name for v in notes(_reductions(n))] for n in (15, 16, 17)}
    assert names == {15: [], 16: [], 17: ["long-reduction"]}
    found = notes(_reductions(17, split_at=8))
    assert [(BY_ID[v.rule or ""].name, v.step) for v in found] == [("reduction-split", 8)]


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


def test_only_the_first_sixteen_attributes_are_kept() -> None:
    many = " ".join(f'x{k}="1"' for k in range(8))
    early = _read(GOOD, ('maxBytes="1073741824"', f'maxBytes="1073741824" {many}'))
    late = _read(GOOD, ("<algo ", f"<algo {many} "))
    assert acceptance(early, TARGETS["msccl"]) == "accepted"
    assert acceptance(late, TARGETS["msccl-executor"]) == "refused"


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


def test_every_rule_is_used_and_every_use_has_a_rule() -> None:
    used: set[str] = set()
    folder = Path(hetesynth.judge.msccl.__file__).parent
    for path in sorted(folder.glob("*.py")):
        if path.name != "rules.py":
            nodes = ast.walk(ast.parse(path.read_text()))
            used |= {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    assert set(RULES) <= used
    assert len(BY_ID) == len(RULES) == len({rule.id for rule in RULES.values()})


def test_the_table_in_the_manual_is_that_of_the_code() -> None:
    text = (Path(__file__).parents[2] / "docs" / "verify.md").read_text()
    for rule in RULES.values():
        assert f"| {rule.id} | {rule.name} | {rule.kind} | {rule.stage} | {rule.summary} | {rule.help} |" in text
    for name in READERS:
        assert f"| {name} | {TARGETS[name].multiprocessors} |" in text
