"""The moves of whole trees: links exchanged for others, and roots moved, as long as a steep sum of loads falls.

Trees are rows of ``link_to``: the link over which each rank gets the chunk, -1 at the root. Of an allreduce every
second tree is of links turned around. A column is a resource, or the connections of a rank; it may carry 1.
"""

from typing import NamedTuple

import numpy as np

from hetesynth.machine_code import Row
from hetesynth.search.portable_math import exponential

MAKES_ARRAYS = False
LARGEST = 300.0  # exponent: a float holds the product of two such powers
ROUND = 1e-6  # of a chunk, or of a sum of loads: less is no difference
FULL = 0.85  # of the load of the fullest column: links on less are not exchanged
DEEP = 0.1  # by which a link is dearer for each level above it: ways are 3 % shorter with it
LEVELS = 3  # of a star that moves make deeper


class Links(NamedTuple):
    """The L links of n ranks and the C columns that they load."""

    src: Row  # L
    dst: Row  # L
    column_start: Row  # L + 1: where the columns of each link begin in ``columns``
    columns: Row
    pair_start: Row  # n x n + 1: where the links of each pair of ranks begin in ``links``
    links: Row
    weight: Row  # C: what a chunk adds


class Rules(NamedTuple):
    """The trees that are wanted, and when to end."""

    ranks: int
    resources: int  # the first columns
    turned: bool  # every second tree is of links turned around, and roots are free
    stars: bool  # trees are, and stay, of few levels
    sharpness: float
    top: float  # the load at which terms are 1; 0: that of the fullest column, or 1 if more
    tries: int  # at which moves end
    enough: float  # load of the fullest resource at which they end if connections are within bounds


class Trees(NamedTuple):
    """T trees, what they load, and places to work in."""

    link_to: Row  # T x n
    load: Row  # C
    tries: Row  # 1
    fresh: Row  # 2 x n: ``link_to`` of a move, or what it was before
    term: Row  # C: of the steep sum
    more: Row  # C: the share by which a chunk more raises the term
    less: Row  # C: the share by which a chunk less lowers it
    turned: Row  # n: the cost of turning around the links up to the first of ``part``
    total: Row  # n: that of both trees
    height: Row  # n: the load of the link to the rank, or its level
    parent: Row  # n
    child: Row  # n: the first
    sibling: Row  # n: the next child of the same parent
    part: Row  # n: the ranks that get the chunk through one, parents first
    inside: Row  # n: 1 for those
    level: Row  # n: below the first of ``part``
    upward: Row  # n: the link that takes a rank's place towards its parent
    full: Row  # n: ranks, by ``height``


def add(links: Links, rules: Rules, trees: Trees, top: float, link: int, sign: int) -> None:
    """Add a chunk over ``link`` to the loads, or take one away."""
    for k in range(links.column_start[link], links.column_start[link + 1]):
        c = links.columns[k]
        trees.load[c] += sign * links.weight[c]
        excess = rules.sharpness * (trees.load[c] / top - 1.0)
        trees.term[c] = exponential(min(excess, LARGEST))


def begin(links: Links, rules: Rules, trees: Trees) -> float:
    """Work out all terms and return the load at which they are 1."""
    top = rules.top
    if top == 0.0:
        top = 1.0
        for c in range(len(trees.load)):
            top = max(top, trees.load[c])
    for c in range(len(trees.load)):
        excess, share = rules.sharpness * (trees.load[c] / top - 1.0), rules.sharpness * links.weight[c] / top
        trees.term[c] = exponential(min(excess, LARGEST))
        trees.more[c] = exponential(min(share, LARGEST)) - 1.0
        trees.less[c] = 1.0 - exponential(max(-share, -LARGEST))
    return top


def steep(trees: Trees) -> float:
    """Return the sum of all terms."""
    total = 0.0
    for c in range(len(trees.term)):
        total += trees.term[c]
    return total


def ended(rules: Rules, trees: Trees) -> bool:
    """Return True if tries are spent, or the fullest resource and all connections have little enough."""
    if trees.tries[0] >= rules.tries:
        return True
    for c in range(rules.resources, len(trees.load)):
        if trees.load[c] > 1.0 + ROUND:
            return False
    fullest = 0.0
    for c in range(rules.resources):
        fullest = max(fullest, trees.load[c])
    return fullest < rules.enough


def cheapest(links: Links, rules: Rules, trees: Trees, a: int, b: int, back: bool) -> tuple[float, int]:
    """Return the least price of a chunk from ``a`` to ``b`` (infinite: no link), and the first link with it."""
    pair = b * rules.ranks + a if back else a * rules.ranks + b
    least, first = np.inf, -1
    for j in range(links.pair_start[pair], links.pair_start[pair + 1]):
        price, link = 0.0, links.links[j]
        for k in range(links.column_start[link], links.column_start[link + 1]):
            price += trees.term[links.columns[k]] * trees.more[links.columns[k]]
        if price < least:
            least, first = price, link
    return least, first


def root_of(rules: Rules, trees: Trees, t: int) -> int:
    """Return the root of tree ``t``."""
    root = 0
    while trees.link_to[t * rules.ranks + root] >= 0:
        root += 1
    return root


def below(links: Links, rules: Rules, trees: Trees, t: int, back: bool, top: int) -> int:
    """List ``top`` and the ranks below it in ``part``, with parents and levels; return how many they are."""
    n = rules.ranks
    for v in range(n):
        trees.child[v] = -1
        trees.inside[v] = 0
    for v in range(n - 1, -1, -1):
        trees.parent[v] = -1
        link = trees.link_to[t * n + v]
        if link >= 0:
            u = links.dst[link] if back else links.src[link]
            trees.parent[v] = u
            trees.sibling[v] = trees.child[u]
            trees.child[u] = v
    trees.part[0] = top
    trees.inside[top] = 1
    trees.level[top] = 0
    number, i = 1, 0
    while i < number:
        u = trees.part[i]
        v = trees.child[u]
        while v >= 0:
            trees.part[number] = v
            trees.inside[v] = 1
            trees.level[v] = trees.level[u] + 1
            number += 1
            v = trees.sibling[v]
        i += 1
    return number


def turn(links: Links, rules: Rules, trees: Trees, t: int, back: bool, number: int) -> None:
    """Work out, for each rank of ``part``, the cost of turning around the links up to the first."""
    trees.turned[trees.part[0]] = 0.0
    for i in range(1, number):
        v = trees.part[i]
        price, trees.upward[v] = cheapest(links, rules, trees, v, trees.parent[v], back)
        link = trees.link_to[t * rules.ranks + v]
        for k in range(links.column_start[link], links.column_start[link + 1]):
            price -= trees.term[links.columns[k]] * trees.less[links.columns[k]]
        trees.turned[v] = trees.turned[trees.parent[v]] + price


def hang(rules: Rules, trees: Trees, t: int, place: int, entry: int, link: int) -> None:
    """Write to ``fresh``, from ``place`` on, tree ``t`` with its part entered at ``entry`` over ``link``."""
    for v in range(rules.ranks):
        trees.fresh[place + v] = trees.link_to[t * rules.ranks + v]
    v = entry
    while v != trees.part[0]:
        trees.fresh[place + trees.parent[v]] = trees.upward[v]
        v = trees.parent[v]
    trees.fresh[place + entry] = link


def swap(links: Links, rules: Rules, trees: Trees, top: float, t: int, number: int) -> None:
    """Exchange the links of ``number`` trees, from ``t`` on, with those in ``fresh``."""
    first = t * rules.ranks
    for i in range(number * rules.ranks):
        before, after = trees.link_to[first + i], trees.fresh[i]
        if before != after:
            trees.link_to[first + i], trees.fresh[i] = after, before
            for sign in (-1, 1):
                link = after if sign > 0 else before
                if link >= 0:
                    add(links, rules, trees, top, link, sign)


def rehang(links: Links, rules: Rules, trees: Trees, top: float, t: int, rank: int) -> int:
    """Write to ``fresh`` how the ranks below ``rank`` are joined to the others where that costs least; return 1,
    or 0 where they are so already or cannot be."""
    n, back, link = rules.ranks, rules.turned and t % 2 == 1, trees.link_to[t * rules.ranks + rank]
    below(links, rules, trees, t, back, root_of(rules, trees, t))
    for v in range(n):
        trees.height[v] = trees.level[v]
    number, deep = below(links, rules, trees, t, back, rank), 0
    for i in range(number):
        deep = max(deep, trees.level[trees.part[i]])
    add(links, rules, trees, top, link, -1)
    turn(links, rules, trees, t, back, number)
    least, entry, over = np.inf, -1, -1
    for u in range(n):
        if trees.inside[u] or (rules.stars and trees.height[u] + 1 + deep > LEVELS):
            continue
        for i in range(1 if rules.stars else number):
            v = trees.part[i]
            if trees.turned[v] < least:
                price, new = cheapest(links, rules, trees, u, v, back)
                price *= 1.0 + DEEP * trees.height[u]
                if price + trees.turned[v] < least:
                    least, entry, over = price + trees.turned[v], v, new
    add(links, rules, trees, top, link, 1)
    if entry < 0 or over == link:
        return 0
    hang(rules, trees, t, 0, entry, over)
    return 1


def reroot(links: Links, rules: Rules, trees: Trees, t: int) -> int:
    """Write to ``fresh`` trees ``t`` and ``t + 1`` from the root that costs least; return 2, or 0: none is."""
    n, root = rules.ranks, root_of(rules, trees, t)
    for v in range(n):
        trees.total[v] = 0.0
    least, entry = np.inf, -1
    for look in (True, False):
        for side in range(2):
            turn(links, rules, trees, t + side, side == 1, below(links, rules, trees, t + side, side == 1, root))
            if not look:
                hang(rules, trees, t + side, side * n, entry, -1)
            for v in range(n):
                trees.total[v] += trees.turned[v]
        for v in range(n):
            if look and v != root and trees.total[v] < least:
                least, entry = trees.total[v], v
        if entry < 0:
            return 0
    return 2


def move(links: Links, rules: Rules, trees: Trees, top: float, t: int, rank: int) -> bool:
    """Join the ranks below ``rank`` of tree ``t`` elsewhere, or where there is none (-1) move the root of trees
    ``t`` and ``t + 1``; return False, and undo it, where the sum does not fall."""
    trees.tries[0] += 1
    before = steep(trees)
    number = reroot(links, rules, trees, t) if rank < 0 else rehang(links, rules, trees, top, t, rank)
    for _ in range(2 if number else 0):
        swap(links, rules, trees, top, t, number)
        if steep(trees) < before * (1.0 - ROUND):
            return True
    return False


def fullest_first(links: Links, rules: Rules, trees: Trees, top: float, t: int) -> int:
    """List in ``full`` the ranks of tree ``t`` whose link is on what is nearly full; return how many they are."""
    n, many = rules.ranks, 0
    for v in range(n):
        link, high = trees.link_to[t * n + v], 0.0
        if link < 0:
            continue
        for k in range(links.column_start[link], links.column_start[link + 1]):
            high = max(high, trees.load[links.columns[k]])
        if high < FULL * top:
            continue
        i = many
        while i > 0 and trees.height[i - 1] < high:
            trees.height[i] = trees.height[i - 1]
            trees.full[i] = trees.full[i - 1]
            i -= 1
        trees.height[i] = high
        trees.full[i] = v
        many += 1
    return many


def sweep(links: Links, rules: Rules, trees: Trees) -> bool:
    """Try other links on what is nearly full, then other roots, but not of stars; return True if any moved."""
    number = len(trees.link_to) // rules.ranks
    roots = number // 2 if rules.turned and not rules.stars else 0
    top, moved = begin(links, rules, trees), False
    for place in range(number + roots):
        t, many = 2 * (place - number), 1
        if place < number:
            t, many = place, fullest_first(links, rules, trees, top, place)
        for i in range(many):
            rank = trees.full[i] if place < number else -1
            if not ended(rules, trees):
                moved = move(links, rules, trees, top, t, rank) or moved
    return moved
