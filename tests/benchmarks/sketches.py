"""The table of docs/sketches.md: what a sketch costs or wins (``python -m benchmarks.sketches``)."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

from benchmarks.generated_clusters import generated_cluster
from hetesynth import api
from hetesynth.engine.artifacts import Synthesis
from hetesynth.errors import HetesynthError

SIZE = "64MB"
_NDV2 = "import dgx1\ncluster ndv2_x2 { instance a[0-1] = ndv2 fabric ib { join a*.nic*; latency 1.3 us } }"
_DGX2 = "import dgx2\ncluster dgx2_x2 { instance a[0-1] = dgx2 fabric ib { join a*.nic*; latency 2.6 us } }"
_ODD = range(1, 16, 2)
_RELAYED = {
    "internode_conn": {str(i): [i - 1] for i in _ODD},
    "gpus_to_sender_rev_map": {str(i): [i - 1, i] for i in _ODD},
}
_DIRECT = {"internode_conn": "direct-map", "gpus_to_sender_rev_map": {str(i): [i] for i in range(16)}}


def _sketch(relay: dict[str, Any], offsets: list[list[int]], chunks: int | None = 1) -> dict[str, Any]:
    return {
        "internode_sketch": {"strategy": "relay", **relay},
        "symmetry_offsets": offsets,
        "hyperparameters": {} if chunks is None else {"input_chunkup": chunks},
    }


_NDV2_MOVED, _DGX2_MOVED = [[8, 16]], [[2, 16], [16, 32]]
TACCL = (
    (_NDV2, "sk1-ndv2-n2", _sketch({"internode_conn": {"0": [3]}}, _NDV2_MOVED)),  # TACCL's GPU 1 is 3 here
    (_NDV2, "sk2-ndv2-n2", _sketch({"internode_conn": "fully-connected"}, _NDV2_MOVED)),
    (_NDV2, "sk3-ndv2-n2", _sketch({"internode_conn": "direct-map"}, _NDV2_MOVED)),
    (_DGX2, "sk1-dgx2-n2", _sketch(_RELAYED, _DGX2_MOVED, 2)),
    (_DGX2, "sk2-dgx2-n2", _sketch(_DIRECT, _DGX2_MOVED)),
)


def cases() -> Iterator[tuple[str, str, dict[str, Any], str]]:
    """A cluster, the name of a sketch, the sketch, a collective."""
    for text, name, document in TACCL:
        for goal in ("allgather", "alltoall", "allreduce"):
            yield text, name, document, goal
    several = (c.text for c in map(generated_cluster, count(200)) if "one server" not in c.features)
    for text in islice(several, 10):
        yield text, "direct-map", _sketch({"internode_conn": "direct-map"}, [], None), "allgather"


def _made(text: str, goal: Any, **options: Any) -> tuple[Synthesis | None, float]:
    """The synthesis, None where there is none, and CPU seconds."""
    began = time.process_time()
    try:
        made = api.synthesize(api.parse(text), goal, **options)
    except HetesynthError as error:
        print(error.message, file=sys.stderr)
        made = None
    return made, time.process_time() - began


def main() -> None:
    """Print the table."""
    print("cluster|sketch|collective|steps / bound|with it|CPU s|with it|64 MB, us|with it|CPU s|with it")
    for number, (text, name, document, goal) in enumerate([next(cases()), *cases()]):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(document, file)
            file.flush()
            cells = list[str]()
            for size in (None, SIZE):
                of = {"size": size} if size else {"schedule_only": True, "objective": "steps"}
                chunks = document["hyperparameters"].get("input_chunkup")
                figures, seconds = list[str](), list[str]()
                for sketch in (None, file.name):
                    made, took = _made(text, goal, chunks=chunks, sketch=sketch, **of)
                    seconds.append(f"{took:.2f}")
                    if made is None:
                        figures.append("none")
                    elif size is None:
                        figures.append(f"{made.solution.schedule.makespan} / {made.solution.bound.steps}")
                    else:
                        figures.append(f"{1e6 * (made.program_seconds or 0):.0f}")
                cells += figures + seconds
            cluster = api.parse(text).name
        if number:  # the first compiles kernels
            print("|".join((cluster, name, goal, *cells)), flush=True)


if __name__ == "__main__":
    main()
