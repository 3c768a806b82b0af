"""Which workers of a Dask cluster may be given cells: those whose versions are the ones here.

In: a client of the cluster. Out: addresses, and what is to be said of the others. A worker that does not answer in
time may be given cells all the same: every cell looks at the versions itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hetesynth.deploy.dask_connection import PAGE, Silent, answered
from hetesynth.deploy.dask_task import Versions, reported
from hetesynth.deploy.job import versions
from hetesynth.deploy.watching import Watcher
from hetesynth.errors import HetesynthError

ANSWER_SECONDS = 60.0
"""For a scheduler, after which it counts as lost."""
REPORT_SECONDS = 10.0
"""For workers to say what they are; a worker in the middle of a cell may take some of them."""
MAX_NAMED = 8
"""Workers that a message names."""
MAX_TEXT = 200
"""Characters of what a worker says of itself."""
WAY_OUT = f"install what is installed here on the workers too, and restart them; see {PAGE}"


@dataclass
class Workers:
    """The workers of a cluster. ``suited``: their threads by address; ``refused``: why not, by address."""

    client: Any
    watcher: Watcher
    suited: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def look(self) -> None:
        """Learn who came and who went. Raises Silent where the scheduler does not answer."""
        threads: dict[str, int] = dict(answered(self.client, self.client.nthreads, ANSWER_SECONDS))
        for gone in [address for address in self.suited if address not in threads]:
            del self.suited[gone]
        new = {a: n for a, n in threads.items() if a not in self.suited and a not in self.refused}
        if not new:
            return
        reasons = dict(_reasons(self._reports(list(new))))
        self.refused |= reasons
        self.suited |= {address: number for address, number in new.items() if address not in reasons}
        if reasons:
            self.watcher.warned(f"{_refusal(reasons)}\n  help: {WAY_OUT}")
        crowded = [address for address in new if address in self.suited and new[address] > 1]
        if crowded:
            self.watcher.warned(
                f"{_listed(crowded)}: several threads, one cell at a time: start workers with --nthreads 1"
            )

    def refuse(self, address: str, theirs: Versions) -> None:
        """Give no more to the worker at ``address``."""
        self.suited.pop(address, None)
        self.refused[address] = difference(theirs)
        self.watcher.warned(f"{_refusal({address: self.refused[address]})}\n  help: {WAY_OUT}")

    def check_some_suit(self) -> None:
        """Raise HetesynthError HS859 where there are workers and none may be given cells."""
        if self.refused and not self.suited:
            raise HetesynthError(
                "no worker of the Dask cluster would give the bytes that are made here",
                code="HS859",
                help=WAY_OUT,
            )

    def _reports(self, addresses: list[str]) -> Mapping[str, Any]:
        def ask() -> Mapping[str, Any]:
            answers: Mapping[str, Any] = self.client.run(reported, workers=addresses, on_error="return")
            return answers

        try:
            return answered(self.client, ask, REPORT_SECONDS)
        except Silent:
            return {}


def _reasons(reports: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(address, why not) of the workers that would give other bytes."""
    for address, report in sorted(reports.items()):
        match report:
            case (str(), tuple() as theirs) if theirs == versions():
                pass
            case (str(name), tuple() as theirs):
                yield address, f"{_cut(name)}: {difference(theirs)}" if name != address else difference(theirs)
            case OSError():
                pass  # it is gone, or comes back
            case _:
                yield address, f"no hetesynth that can be used ({_cut(str(report))})"


def difference(theirs: Versions) -> str:
    """In which versions a worker differs."""
    try:
        named = dict(theirs)
    except (TypeError, ValueError):
        return "versions that cannot be read"
    differing = [(name, named.get(name, "none"), own) for name, own in versions() if named.get(name) != own]
    return ", ".join(f"{name} {_cut(str(other))}, here {own}" for name, other, own in differing)


def _refusal(reasons: Mapping[str, str]) -> str:
    lines = [f"  {address}: {reason}" for address, reason in list(reasons.items())[:MAX_NAMED]]
    more = len(reasons) - len(lines)
    lines += [f"  and {more} more"] if more else []
    return "\n".join(["workers of other versions are given nothing:", *lines])


def _listed(addresses: list[str]) -> str:
    more = len(addresses) - MAX_NAMED
    return ", ".join(addresses[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."
