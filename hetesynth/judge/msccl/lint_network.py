"""Programs that cross NICs and for which the host tells the network proxy of other steps than the interpreter
makes.

In: a program, targets and, where it is known, the server of each rank. Out: findings. A proxy moves the steps of a
connection that it was told of; docs/targets.md says what follows where the interpreter makes others.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetesynth.judge.msccl.rules import RULES
from hetesynth.model.program import Program
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.verdict import Violation


def network_violations(
    program: Program, targets: Sequence[Target], servers: Sequence[str] | None = None
) -> list[Violation]:
    """At most one finding. ``targets``: none, and it is about the portable one. ``servers``: of each rank; None:
    not known, and the finding says for which connections it holds."""
    rule = RULES["network-steps"]
    fifos = [target.fifo(program.protocol, program.collective) for target in targets or (PORTABLE,)]
    disagreeing = [fifo for fifo in fifos if not fifo.proxy_agrees]
    crossing = None if servers is None else _crossing(program, servers)
    if not disagreeing or crossing == []:
        return []
    fifo = disagreeing[0]
    where = "between servers" if crossing is None else f"from rank {crossing[0][0]} to rank {crossing[0][1]}"
    if crossing and len(crossing) > 1:
        where += f" (and {len(crossing) - 1} more pairs between servers)"
    text = (
        f"{program.protocol} {program.collective}: over a NIC, as {where}, the proxy is told of "
        f"{fifo.host_steps} step a message and the interpreter makes {fifo.kernel_steps}; as read, it hangs"
    )
    return [Violation(rule.kind, text, rule=rule.id)]


def _crossing(program: Program, servers: Sequence[str]) -> list[tuple[int, int]]:
    """(sender, receiver) of connections between servers; ranks whose server is not known stand alone."""
    connections = {
        (gpu.rank, block.send_peer)
        for gpu in program.gpus
        for block in gpu.thread_blocks
        if block.send_peer is not None
        and min(gpu.rank, block.send_peer) >= 0
        and max(gpu.rank, block.send_peer) < len(servers)
        and servers[gpu.rank] != servers[block.send_peer]
    }
    return sorted(connections)
