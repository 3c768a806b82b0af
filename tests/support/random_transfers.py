"""Random transfer graphs with round numbers: heterogeneous links, shared groups, dependences, computation."""

from __future__ import annotations

import random
from fractions import Fraction

from support.fluid_reference import Task

US = Fraction(1, 10**6)


def random_tasks(seed: int, tasks: int = 14) -> tuple[list[Fraction], list[Task]]:
    """Rates of links and groups, and tasks over them; some alphas, sizes and computations are zero or alike."""
    chance = random.Random(seed)
    links = chance.randint(2, 6)
    groups = chance.randint(0, 3)
    rates = [Fraction(chance.choice((8, 12, 16, 25, 50, 100, 450)) * 10**9) for _ in range(links + groups)]
    member = [tuple(g for g in range(links, links + groups) if chance.random() < 0.5) for _ in range(links)]
    alphas = [chance.choice((0, 1, 1, 2, 13)) * US / chance.choice((1, 2)) for _ in range(links)]
    made: list[Task] = []
    for i in range(tasks):
        link = chance.randrange(links)
        waits = tuple(sorted(chance.sample(range(i), min(i, chance.choice((0, 0, 1, 1, 2))))))
        size = Fraction(chance.choice((0, 100_000, 1_000_000, 1_000_000, 3_000_000)))
        after = size / (270 * 10**9) if chance.random() < 0.3 else Fraction(0)
        made.append(Task((link, *member[link]), waits, alphas[link], size, after))
    return rates, made
