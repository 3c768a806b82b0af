"""The optimal packing of a collective on a network: alike ranks once, then column generation.

In: a network, a collective, the server of each rank, a deadline. Out: its symmetry, and the fractional packing
found with it; at the deadline the best so far.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import Deadline
from hetesynth.model.topology import Rank
from hetesynth.policy.packing import PackingPolicy
from hetesynth.search.packing.column_generation import FractionalPacking, pack
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.structures import demands
from hetesynth.search.packing.symmetry import Symmetry, symmetry


def optimal_packing(
    network: Network, name: CollectiveName, root: Rank | None, servers: Sequence[str], policy: PackingPolicy,
    deadline: Deadline,
) -> tuple[Symmetry, FractionalPacking]:  # fmt: skip
    """The packing within the policy's gap, or the best so far at ``deadline``.

    Raises ValueError where some rank cannot be reached.
    """
    alike = symmetry(network, servers, policy.largest_group * network.ranks, root)
    asked = demands(network, name, root, alike, policy)
    return alike, pack(network, asked, alike, policy, deadline)
