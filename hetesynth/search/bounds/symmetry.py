"""Vertices that look alike: the coarsest equitable partition of a weighted graph.

In: the edges of a step, with capacities, and a first colour of each vertex. Out: a class per vertex such that all
vertices of a class have, to and from every other class, the same number of edges of each capacity (colour
refinement; Weisfeiler and Leman 1968). A flow that treats the members of a class alike is as large as any: average
over the class, all along the refinement (Ramana, Scheinerman and Ullman 1994). So flows may be sought between
classes, and a cut between classes is a cut.

Colours are compared by 64-bit sums of mixed words. Nothing rests on it: what comes of it is rechecked vertex by
vertex.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class StepGraph:
    """The edges of one step: (src vertex, dst vertex, capacity or -1 for unlimited)."""

    src: Ints
    dst: Ints
    capacity: Ints


def classes(graph: StepGraph, colour: Ints) -> Ints:
    """The class of each vertex, numbered from 0 by first appearance; refines ``colour``."""
    current = _numbered(colour)
    count = int(current.max()) + 1
    width = _mixed(graph.capacity.astype(np.uint64))
    while True:
        seen = _mixed(current.astype(np.uint64))
        out_of = _mixed(seen[graph.dst] + width)
        into = _mixed(~seen[graph.src] + width)
        look = _mixed(seen)
        np.add.at(look, graph.src, out_of)
        np.add.at(look, graph.dst, into)
        refined = _numbered(look)
        number = int(refined.max()) + 1
        if number == count:
            return refined
        current, count = refined, number


def _numbered(values: NDArray[np.generic]) -> Ints:
    """The same partition with numbers from 0, by first appearance."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.empty(len(first), dtype=np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    numbered: Ints = order[inverse]
    return numbered


def _mixed(words: Words) -> Words:
    """Words in which every bit depends on every bit (the finalizer of SplitMix64, Steele et al. 2014)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
