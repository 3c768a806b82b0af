"""Mutated files through reader, judge and linter: no exception, no hang, bounded memory, nothing fetched."""

from __future__ import annotations

import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hostile_mutations import mutated
from program_builders import good_programs, to_xml
from support.verdicts import XML_TARGETS, acceptance

from hetesynth.judge.msccl.judge import large_message_violations, notes, profile_violations, program_violations
from hetesynth.judge.msccl.linter import lint_targets
from hetesynth.judge.msccl.reader import read_program
from hetesynth.judge.msccl.rules import BY_ID
from hetesynth.model.target import TARGETS

TEXTS = [to_xml(p) for _, p in sorted(good_programs().items())]
SECONDS = 10
MEGABYTES = 300


@contextmanager
def _limited(seed: int) -> Iterator[None]:
    """A hang becomes a failure that names the seed."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"seed {seed} takes more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _judged(seed: int) -> bool:
    """Whether the file of ``seed`` is right for some target; checks what must hold of every answer."""
    text = mutated(seed, TEXTS)
    read = read_program(text, "fuzz")
    fatal = program_violations(read)
    others = [*profile_violations(read), *large_message_violations(read), *notes(read)]
    targets = [TARGETS[name] for name in XML_TARGETS]
    verdicts = lint_targets(read, targets)
    for target, verdict in zip(targets, verdicts, strict=True):
        assert verdict.acceptance == acceptance(read, target), seed
        assert verdict.violations or (verdict.acceptance == "accepted" and read.program is not None), seed
        others += verdict.violations
    assert read.program is not None or fatal, seed
    for v in [*fatal, *others]:
        assert v.rule in BY_ID, seed
        assert v.kind == BY_ID[v.rule].kind, seed
        assert len(v.message) < 2000, seed
        assert v.line is None or 1 <= v.line <= text.count(b"\n") + 1, seed
    return any(not v.violations for v in verdicts)


def _run(seeds: range, monkeypatch: pytest.MonkeyPatch) -> int:
    """Files that are still right."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a reader opened a file or a connection")

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    right = 0
    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", refused)
        patch.setattr(socket, "socket", refused)
        for seed in seeds:
            with _limited(seed):
                right += _judged(seed)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / (
        2**20 if sys.platform == "darwin" else 2**10
    )
    assert grown < MEGABYTES
    return right


def test_three_hundred_mutated_files(monkeypatch: pytest.MonkeyPatch) -> None:
    right = _run(range(300), monkeypatch)
    assert 0 < right < 150, "some mutations are harmless (comments, unused fields), most are not"


@pytest.mark.slow
def test_ten_thousand_mutated_files(monkeypatch: pytest.MonkeyPatch) -> None:
    start = time.process_time()
    _run(range(1000, 11000), monkeypatch)
    assert time.process_time() - start < 1200


def test_a_seed_is_one_file() -> None:
    assert [mutated(s, TEXTS) for s in range(50)] == [mutated(s, TEXTS) for s in range(50)]
    assert len({mutated(s, TEXTS) for s in range(200)}) > 190
