"""Runs transfer graphs in SimGrid. To be started by a Python that can import simgrid, apart from the tests' own.

Standard input: JSON, a list of graphs {"rates": [...], "tasks": [[uses, waits, delay, size, after], ...]} in
seconds and whole bytes. Standard output: JSON, for each graph the end of each task. All graphs run in one
simulation on separate hardware, each driven by an actor of its own.

Links have no latency: SimGrid's sharing depends on it. A delay is a transfer over a link that gives every flow its
full bandwidth.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from simgrid import Actor, Comm, Engine, Host, Link, LinkInRoute, NetZone

SETTINGS = (
    "network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0", "network/weight-S:0",
    "surf/precision:1e-12", "maxmin/precision:1e-5",
)  # fmt: skip
CLOCK = 10**15  # bytes per second of the delaying link


class Platform:
    """Links of every graph, and a pair of hosts for every path over them."""

    def __init__(self) -> None:
        self.zone = NetZone.create_full_zone("zone")
        self.pairs: dict[tuple[str, ...], tuple[Host, Host]] = {}
        self.links = {"delay": self.zone.create_link("delay", CLOCK)}
        self.links["delay"].set_latency(0).set_sharing_policy(Link.SharingPolicy.FATPIPE, None).seal()

    def link(self, name: str, rate: float) -> None:
        self.links[name] = self.zone.create_link(name, rate).set_latency(0).seal()

    def path(self, names: tuple[str, ...]) -> tuple[Host, Host]:
        if names not in self.pairs:
            ends = tuple(self.zone.create_host(f"h{len(self.pairs)}{side}", 1e9).seal() for side in "ab")
            route = [LinkInRoute(self.links[name]) for name in names]
            self.zone.add_route(ends[0].netpoint, ends[1].netpoint, None, None, route, False)
            self.pairs[names] = ends
        return self.pairs[names]


def play(platform: Platform, number: int, tasks: list[Any], ends: list[float]) -> None:
    """The actor of one graph: starts what is ready, waits for anything to end."""
    followers: list[list[int]] = [[] for _ in tasks]
    missing = [len(task[1]) for task in tasks]
    for i, task in enumerate(tasks):
        for w in task[1]:
            followers[w].append(i)
    pending: list[Any] = []
    owners: list[tuple[int, int]] = []

    def begin(i: int, stage: int) -> None:
        stack = [(i, stage)]
        while stack:
            i, stage = stack.pop()
            uses, _, delay, size, after = tasks[i]
            amount = [round(delay * CLOCK), size if uses else 0, round(after * CLOCK), 0][stage]
            if stage == 3:
                ends[i] = Engine.clock
                for f in followers[i]:
                    missing[f] -= 1
                    if not missing[f]:
                        stack.append((f, 0))
            elif amount == 0:
                stack.append((i, stage + 1))
            else:
                names = tuple(f"{number}.{u}" for u in uses) if stage == 1 else ("delay",)
                pending.append(Comm.sendto_async(*platform.path(names), amount))
                owners.append((i, stage))

    for i in range(len(tasks)):
        if not tasks[i][1]:
            begin(i, 0)
    while pending:
        done = Comm.wait_any(pending)
        pending.pop(done)
        i, stage = owners.pop(done)
        begin(i, stage + 1)


def main() -> None:
    graphs = json.load(sys.stdin)
    engine = Engine(["judge", *(f"--cfg={setting}" for setting in SETTINGS), "--log=root.thresh:error"])
    platform = Platform()
    platform.path(("delay",))
    ends = [[0.0] * len(graph["tasks"]) for graph in graphs]
    for number, graph in enumerate(graphs):
        for i, rate in enumerate(graph["rates"]):
            platform.link(f"{number}.{i}", rate)
        for uses, *_ in graph["tasks"]:
            if uses:
                platform.path(tuple(f"{number}.{u}" for u in uses))
    platform.zone.seal()
    for number, graph in enumerate(graphs):
        Actor.create(
            f"a{number}", platform.pairs[("delay",)][0], play, platform, number, graph["tasks"], ends[number]
        )
    engine.run()
    json.dump(ends, sys.stdout)


main()
