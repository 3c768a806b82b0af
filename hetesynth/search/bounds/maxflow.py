"""Maximum flow and a minimum cut: the one of all bounds (Dinic 1970).

In: edges with integer capacities of any size. Out: the value of a maximum flow and the source side of a minimum
cut. Plain loops need nothing to be imported and know no largest integer; large networks whose sums fit 31 bits go
to scipy.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetesynth.policy.bounds import BoundsPolicy

INT32 = 2**31 - 1  # what scipy's flows are stored in

Edge = tuple[int, int, int]


def maximum_flow(
    nodes: int, edges: Sequence[Edge], source: int, sink: int, policy: BoundsPolicy
) -> tuple[int, list[int]]:
    """The flow from ``source`` to ``sink``; the nodes on the source side of a minimum cut, in order.

    ``edges``: (from, to, capacity), at most one of each direction between two nodes. Of several minimum cuts it is
    the one nearest the source, or where the flow may have more than 31 bits the one nearest the sink.
    """
    supply = sum(capacity for start, _, capacity in edges if start == source)
    if 2 * max(supply, *(capacity for _, _, capacity in edges), 0) > INT32:
        return _dinic(nodes, edges, source, sink, nearest_sink=True)
    return (_dinic if len(edges) <= policy.plain_flow_edges else _compiled)(nodes, edges, source, sink)


def _compiled(nodes: int, edges: Sequence[Edge], source: int, sink: int) -> tuple[int, list[int]]:
    import numpy as np
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order
    from scipy.sparse.csgraph import maximum_flow as compiled

    table = np.array(edges, dtype=np.int64).reshape(-1, 3)
    network = csr_matrix(
        (table[:, 2].astype(np.int32), (table[:, 0].astype(np.int32), table[:, 1].astype(np.int32))),
        shape=(nodes, nodes),
    )
    result = compiled(network, source, sink)
    residual = network - result.flow
    residual.data = np.maximum(residual.data, 0)
    residual.eliminate_zeros()
    reached = breadth_first_order(residual, source, return_predecessors=False)
    return int(result.flow_value), sorted(int(node) for node in reached)


def _dinic(
    nodes: int, edges: Sequence[Edge], source: int, sink: int, *, nearest_sink: bool = False
) -> tuple[int, list[int]]:
    out_of: list[list[int]] = [[] for _ in range(nodes)]
    head: list[int] = []
    left: list[int] = []
    for u, v, capacity in edges:
        out_of[u].append(len(head))
        out_of[v].append(len(head) + 1)
        head += (v, u)
        left += (capacity, 0)
    value = 0
    while True:
        level = _levels(out_of, head, left, source)
        if level[sink] < 0:
            behind = _reaching(out_of, head, left, sink) if nearest_sink else set()
            return value, [v for v in range(nodes) if (v not in behind if nearest_sink else level[v] >= 0)]
        turn = [0] * nodes
        while True:
            pushed = _augment(out_of, head, left, level, turn, source, sink)
            if not pushed:
                break
            value += pushed


def _levels(out_of: list[list[int]], head: list[int], left: list[int], source: int) -> list[int]:
    level = [-1] * len(out_of)
    level[source] = 0
    layer = [source]
    while layer:
        following = []
        for u in layer:
            for e in out_of[u]:
                v = head[e]
                if left[e] and level[v] < 0:
                    level[v] = level[u] + 1
                    following.append(v)
        layer = following
    return level


def _reaching(out_of: list[list[int]], head: list[int], left: list[int], sink: int) -> set[int]:
    """The nodes from which something more could flow to ``sink``."""
    nodes, stack = {sink}, [sink]
    while stack:
        for e in out_of[stack.pop()]:
            if left[e ^ 1] and head[e] not in nodes:
                nodes.add(head[e])
                stack.append(head[e])
    return nodes


def _augment(
    out_of: list[list[int]], head: list[int], left: list[int], level: list[int], turn: list[int],
    source: int, sink: int,
) -> int:  # fmt: skip
    """One more path of the level graph, saturated; 0 when there is none. ``turn``: edges not yet exhausted."""
    path: list[int] = []
    at = source
    while at != sink:
        leaving = out_of[at]
        while turn[at] < len(leaving):
            e = leaving[turn[at]]
            if left[e] and level[head[e]] == level[at] + 1:
                break
            turn[at] += 1
        else:
            if not path:
                return 0
            at = head[path.pop() ^ 1]
            turn[at] += 1
            continue
        path.append(e)
        at = head[e]
    room = min(left[e] for e in path)
    for e in path:
        left[e] -= room
        left[e ^ 1] += room
    return room
