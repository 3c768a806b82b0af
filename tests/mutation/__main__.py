"""Tries the mutants of source files and names those that no test notices.

    PYTHONPATH=tests python -m mutation                 # all of DEFAULTS
    PYTHONPATH=tests python -m mutation hetesynth/judge/bounds --tests tests/verify tests/bounds

A mutant is tried in a forked process: its function gets the changed code where it lives, so that nothing is
imported anew, and the tests that call the function run, the quickest first, until one fails. Exit code 1 where a
mutant survives that ``equivalents.py`` does not name; ``--told``: they are named, and the exit code is 0.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

from mutation.equivalents import EQUIVALENT
from mutation.operators import Mutant, mutants

ROOT = Path(__file__).parents[2]
DEFAULTS: dict[str, tuple[bool, tuple[str, ...]]] = {
    "hetesynth/judge/schedule": (True, ("verify/test_schedule_*.py", "mutants/test_schedule_mutants.py")),
    "hetesynth/judge/bounds": (
        True,
        ("verify/test_[bc]*.py", "bounds/test_*.py", "mutants/test_cert*.py", "synthesis/test_contributions.py"),
    ),
    "hetesynth/judge/composition": (False, ("composition/test_composition_[cdm]*.py",)),
    "hetesynth/judge/msccl": (False, ("verify/test_msccl_*.py", "verify/test_l*.py", "verify/test_program_*.py")),
    "hetesynth/judge/mscclpp": (False, ("verify/test_mscclpp_*.py",)),
}
"""Which tests notice mutants of a folder, and whether each that survives is a failure."""
SURVIVED, KILLED, NOT_TRIED, EQUAL = 0, 1, 2, 3
WORDS = ("survived", "killed", "not run")
Where = tuple[str, str, int]  # file, function, first line


class _Session:
    """Keeps pytest's session open after collection, to be run in forked processes."""

    def __init__(self, work: Any) -> None:
        self.work = work

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.work(session)
        return True


def _passes(session: pytest.Session, item: pytest.Item) -> bool:
    """Run one test. True where it passed or skipped."""
    from _pytest.runner import runtestprotocol

    reports = runtestprotocol(item, nextitem=None, log=False)
    return not any(report.failed for report in reports)


def _forked(work: Any) -> int:
    """The process that does ``work`` and exits with what it returns."""
    child = os.fork()
    if child:
        return child
    os.setpgid(0, 0)  # tests' own processes end with it
    code = 70
    with contextlib.suppress(BaseException):
        with open(os.devnull, "w") as null:
            os.dup2(null.fileno(), 1)
            os.dup2(null.fileno(), 2)
        code = work()
    os._exit(code)


def _calls(session: pytest.Session, files: Sequence[str]) -> dict[str, tuple[float, frozenset[Where]]]:
    """For every test that passes: its seconds, and the functions of ``files`` that it calls."""
    wanted = frozenset(files)
    with tempfile.NamedTemporaryFile() as answer:

        def work() -> int:
            import threading

            found: dict[str, tuple[float, frozenset[Where]]] = {}
            seen: set[CodeType] = set()

            def note(frame: FrameType, event: str, _: object) -> None:
                if event == "call":
                    seen.add(frame.f_code)

            for item in session.items:
                seen.clear()
                threading.setprofile(note)
                sys.setprofile(note)
                begin = time.perf_counter()
                passed = _passes(session, item)
                seconds = time.perf_counter() - begin
                sys.setprofile(None)
                threading.setprofile(None)
                places = frozenset(
                    (c.co_filename, c.co_name, c.co_firstlineno) for c in seen if c.co_filename in wanted
                )
                if passed and places:
                    found[item.nodeid] = seconds, places
            Path(answer.name).write_bytes(pickle.dumps(found))
            return 0

        child = _forked(work)
        _, status = os.waitpid(child, 0)
        if status:
            raise SystemExit("the tests could not be run without mutants")
        values: dict[str, tuple[float, frozenset[Where]]] = pickle.loads(Path(answer.name).read_bytes())
        return values


def _live() -> dict[Where, list[FunctionType]]:
    functions = defaultdict(list)
    for value in gc.get_objects():
        if isinstance(value, FunctionType):
            code = value.__code__
            functions[code.co_filename, code.co_name, code.co_firstlineno].append(value)
    return functions


class Trial:
    """Tries mutants of ``files`` with the tests of ``session``, ``jobs`` at once,
    each for ``seconds``."""

    def __init__(self, session: pytest.Session, files: Sequence[str], jobs: int, seconds: float) -> None:
        self.session, self.jobs, self.seconds = session, jobs, seconds
        calls = _calls(session, files)
        items = {item.nodeid: item for item in session.items}
        self.tests: dict[Where, list[tuple[float, pytest.Item]]] = defaultdict(list)
        for test, (seconds, places) in sorted(calls.items(), key=lambda one: one[1][0]):
            for where in places:
                self.tests[where].append((seconds, items[test]))
        self.live = _live()

    def _quick(self, where: Where) -> list[tuple[float, pytest.Item]]:
        """The quickest tests that call a function, for so many seconds."""
        chosen: list[tuple[float, pytest.Item]] = []
        for seconds, item in self.tests.get(where, []):
            chosen.append((seconds, item))
            if sum(one for one, _ in chosen) > self.seconds:
                break
        return chosen

    def verdicts(self, waiting: Iterator[tuple[str, Mutant]]) -> Iterator[tuple[str, Mutant, int]]:
        """Each mutant with its fate, as it becomes known."""
        running: dict[int, tuple[str, Mutant, float]] = {}
        for file, mutant in waiting:
            where = (file, *mutant.function)
            tests, functions = self._quick(where), self.live.get(where, [])
            if not tests or not functions:
                yield file, mutant, NOT_TRIED
                continue
            while len(running) >= self.jobs:
                yield from self._ended(running)
            limit = 20 + 5 * sum(seconds for seconds, _ in tests)
            child = _forked(
                lambda mutant=mutant, tests=tests, functions=functions: self._try(mutant, tests, functions)
            )
            running[child] = file, mutant, time.monotonic() + limit
        while running:
            yield from self._ended(running)

    def _try(
        self, mutant: Mutant, tests: Sequence[tuple[float, pytest.Item]], functions: Sequence[FunctionType]
    ) -> int:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        for function in functions:
            function.__code__ = mutant.code
        return SURVIVED if all(_passes(self.session, item) for _, item in tests) else KILLED

    @staticmethod
    def _ended(running: dict[int, tuple[str, Mutant, float]]) -> Iterator[tuple[str, Mutant, int]]:
        time.sleep(0.002)
        for child, (file, mutant, limit) in list(running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended and time.monotonic() < limit:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            if not ended:
                os.waitpid(child, 0)
            del running[child]
            yield file, mutant, SURVIVED if ended and status == 0 else KILLED


def main() -> int:
    """Try the mutants of the named files, or of all that DEFAULTS names."""
    if len(sys.argv) == 1:
        return max(_default(source, *row) for source, row in DEFAULTS.items())
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("sources", nargs="+", type=Path, help="files and folders whose functions are changed")
    parser.add_argument("--tests", nargs="+", required=True, help="what pytest collects; slow tests stay out")
    parser.add_argument("--told", action="store_true", help="survivors are named and are no failure")
    parser.add_argument("--seconds", type=float, default=10.0, help="of tests for a mutant, the quickest first")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    sources: list[Path] = options.sources
    paths = [
        p.resolve() for given in sources for p in ([given] if given.is_file() else sorted(given.rglob("*.py")))
    ]
    fates: dict[int, int] = defaultdict(int)

    def work(session: pytest.Session) -> None:
        trial = Trial(session, [str(path) for path in paths], options.jobs, options.seconds)
        waiting = ((str(path), mutant) for path in paths for mutant in mutants(path.read_text(), str(path)))
        for file, mutant, fate in trial.verdicts(waiting):
            name = f"{os.path.relpath(file, ROOT)} {mutant.name}"
            fate = EQUAL if fate == SURVIVED and name in EQUIVALENT else fate
            fates[fate] += 1
            if fate not in (KILLED, EQUAL):
                print(f"{WORDS[fate]} {name}", file=sys.__stderr__, flush=True)

    os.chdir(ROOT)
    pytest.main(["-n", "0", "-p", "no:cacheprovider", *options.tests], plugins=[_Session(work)])
    untried = f"{fates[NOT_TRIED]} in functions that no test calls"
    print(f"{fates[KILLED]} killed, {fates[SURVIVED]} survived, {fates[EQUAL]} change nothing, {untried}")
    return int(not options.told and (not fates[KILLED] or fates[SURVIVED] + fates[NOT_TRIED] > 0))


def _default(source: str, empty: bool, patterns: Sequence[str]) -> int:
    """The exit code of a run of its own: each needs a pytest of its own."""
    tests = [str(test) for pattern in patterns for test in sorted((ROOT / "tests").glob(pattern))]
    command = [sys.executable, "-m", "mutation", str(ROOT / source), "--seconds", "60"]
    command += [] if empty else ["--told"]
    print(source, flush=True)
    return subprocess.call([*command, "--tests", *tests])


if __name__ == "__main__":
    sys.exit(main())
