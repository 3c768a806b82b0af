"""Random clusters of servers as sources in the topology language, the same text for the same seed."""

from __future__ import annotations

import random

INSIDE = (25, 50, 150, 300, 450)  # GB/s of a GPU inside its server
CARDS = (64, 100, 200, 400)  # Gbps of a NIC
GPUS = (2, 4, 6, 8)
MAX_SERVERS = 16


def random_source(seed: int, least: int, most: int) -> str:
    """Servers of one to three kinds with ``least`` to ``most`` GPUs in all, on one fabric."""
    rng = random.Random(seed)
    wanted = rng.randint(least, most)
    kinds: list[tuple[int, str]] = []
    for number in range(rng.randint(1, 3)):
        gpus = rng.choice([g for g in GPUS if g * MAX_SERVERS >= wanted])
        kinds.append((gpus, _kind(rng, f"kind{number}", gpus)))
    counts = [0] * len(kinds)
    total = 0
    while total < wanted:
        chosen = rng.randrange(len(kinds))
        if total + kinds[chosen][0] > most:
            break
        counts[chosen] += 1
        total += kinds[chosen][0]
    used = [number for number, count in enumerate(counts) if count]
    instances = "".join(f"  instance s{n}x[0-{counts[n] - 1}] = kind{n}\n" for n in used)
    fabric = f"  fabric net {{ join *.nic*; latency {rng.choice(('0.5', '1.3', '5'))} us }}\n"
    nodes = "".join(kinds[n][1] for n in used)
    return f"{nodes}cluster random_{seed} {{\n  chunk 1 MB\n{instances}{fabric}}}\n"


def _kind(rng: random.Random, name: str, gpus: int) -> str:
    """A server: GPUs on a switch or joined in pairs, NICs of one rate that neighbours share."""
    rate = rng.choice(INSIDE)
    inside = (
        f"  switch sw {{ ports gpu[0-{gpus - 1}]; bandwidth {rate} GB/s; latency 0.7 us; kind nvlink }}\n"
        if rng.random() < 0.6
        else f"  mesh gpu[0-{gpus - 1}] {{ bandwidth {rate} GB/s; latency 0.7 us; kind nvlink }}\n"
    )
    cards = rng.choice([c for c in (1, 2, 4, 8) if gpus % c == 0])
    each = gpus // cards
    attached = "".join(f"  attach gpu[{c * each}-{c * each + each - 1}] -> nic{c}\n" for c in range(cards))
    nics = f"nic[0-{cards - 1}]" if cards > 1 else "nic0"
    return (
        f"node {name} {{\n  gpus {gpus}\n{inside}  nic {nics} {{ bandwidth {rng.choice(CARDS)} Gbps }}\n"
        f"{attached}}}\n"
    )
