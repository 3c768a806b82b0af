"""``without``, ``down`` and ``degrade``: what failed or became slow in a cluster described as it was built."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from hetesynth.model.topology import NETWORK_KINDS, VertexKind
from hetesynth.topology.language.expressions import MAX_BITS
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.names import HardwareGraph, Part, Rate, Scope, expand, glob
from hetesynth.topology.language.syntax import Degrade, Down, Loss, Without, Word
from hetesynth.topology.language.units import lanes_of, measure, ratio

WORK_OF_A_RATE = 8  # in units of one name tried against a pattern

_NETWORK = NETWORK_KINDS | {"nic"}


@dataclass(slots=True)
class Losses:
    """The losses of one cluster: first the parts, then, once all wires are laid, the wires."""

    hardware: HardwareGraph
    findings: Findings
    notes: list[str] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)  # parts whose loss a note tells
    _later: list[tuple[Down | Degrade, Scope]] = field(default_factory=list)
    _between: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    _at: dict[str, list[int]] = field(default_factory=dict)
    _kinds: dict[str, VertexKind] = field(default_factory=dict)

    def take(self, loss: Loss, scope: Scope) -> None:
        """Apply ``without`` at once; keep ``down`` and ``degrade`` for ``apply``."""
        if not isinstance(loss, Without):
            self._later.append((loss, scope))
            return
        instances: dict[str, list[Part]] = {}  # of each all parts
        for name, part in scope.parts.items():
            for dot in re.finditer(r"\.", name):
                instances.setdefault(name[: dot.start()], []).append(part)
        for word in loss.targets:
            self.findings.spend(len(scope.parts), word.span)
            for pattern in expand(word, self.findings):
                self.findings.spend(len(instances), word.span)
                regex = glob(pattern)
                inside = [part for name in instances if regex.fullmatch(name) for part in instances[name]]
                for part in inside or scope.resolve([Word(pattern, word.span)]):
                    part.disabled = True
                    self.lost.add(part.name)
        self.notes.append(f"{_shown(loss.targets, scope)} lost")

    def apply(self) -> None:
        """Apply the kept losses to the wires, all of which must be laid."""
        if not self._later:
            return
        self._kinds = {vertex: p.kind for p in self.hardware.parts for vertex in self.hardware.vertices_of(p)}
        for index, (src, dst, _) in enumerate(self.hardware.wires):
            self._between.setdefault((src, dst), []).append(index)
            self._at.setdefault(src, []).append(index)
            self._at.setdefault(dst, []).append(index)
        dropped: set[int] = set()
        for loss, scope in self._later:
            if isinstance(loss, Down):
                dropped.update(self._wires(loss, scope))
                self.notes.append(f"{_shown(loss.left, scope)} {_arrow(loss)} {_shown(loss.right, scope)} down")
            else:
                self._degrade(loss, scope)
        self.hardware.wires = [wire for i, wire in enumerate(self.hardware.wires) if i not in dropped]

    def _wires(self, loss: Down | Degrade, scope: Scope) -> list[int]:
        """Return the wires between the two sides, i-th with i-th or one with every one; none is a finding."""
        pairs = scope.paired(loss.left, loss.right, loss.span)
        self.findings.spend(WORK_OF_A_RATE * len(pairs), loss.span)
        wires: dict[int, None] = {}
        for a, b in pairs:
            ends_a, ends_b = self.hardware.vertices_of(a), self.hardware.vertices_of(b)
            ways = [(p, q) for p in ends_a for q in ends_b if p != q]
            ways += [(q, p) for p, q in ways] if loss.both_ways else []
            joining = [wire for way in ways for wire in self._between.get(way, ())]
            wires.update(dict.fromkeys(joining))
            if not joining and not (a.disabled or b.disabled):
                self.findings.add("HS224", loss.left[0].span, f"no wire leads from `{a.name}` to `{b.name}`")
        return list(wires)

    def _degrade(self, loss: Degrade, scope: Scope) -> None:
        amount, percent = loss.amount, loss.amount.unit == "%"
        if percent:
            part_left = ratio(amount, "a share in percent", self.findings, most=100)
            value = None if part_left is None else part_left / 100
        else:
            value = measure(amount, "bandwidth", "a bandwidth", self.findings)
        limit = Rate("", value, lanes_of(loss.lanes, self.findings))
        if loss.right:
            between = self._wires(loss, scope)
            pairs = [(between, f"{loss.left[0].text} {_arrow(loss)} {loss.right[0].text}")] if between else []
        else:
            parts = [part for part in scope.resolve(loss.left) if not part.disabled]
            self.findings.spend(len(parts), loss.span)
            pairs = [(self._own(part, loss), part.name) for part in parts]
        slowed: set[int] = set()  # a wire between two parts of one statement is slowed down once
        for concerned, name in pairs:
            self.findings.spend(WORK_OF_A_RATE * (1 + len(concerned)), loss.span)
            wires = [wire for wire in concerned if wire not in slowed]
            slowed.update(wires)
            if value is None or (concerned and not wires):
                continue
            wires = self._limiting(wires) if percent else wires
            if not wires:
                message = f"`{name}` has no bandwidth of its own"
                help_ = "name a NIC, a switch, a bus, a GPU, or two parts that are joined: "
                self.findings.add("HS211", loss.left[0].span, message, f"{help_}`degrade A <-> B to RATE`")
            elif not percent and all(self.hardware.wires[wire][2].slower_than(limit) for wire in wires):
                message = f"`{name}` is slower than {amount.number} {amount.unit} already"
                self.findings.add("HS208", amount.span, message)
            for wire in wires:
                src, dst, rate = self.hardware.wires[wire]
                if percent:
                    less = (rate.bandwidth or Fraction(0)) * value
                    if max(less.numerator.bit_length(), less.denominator.bit_length()) > MAX_BITS:
                        self.findings.add("HS231", amount.span, f"`{name}` has a rate of too many digits")
                        self.findings.raise_any()
                    rate = replace(rate, bandwidth=less)
                elif not rate.slower_than(limit):
                    rate = replace(limit, kind=rate.kind, latency=rate.latency)
                self.hardware.wires[wire] = (src, dst, rate)
        right = f" {_arrow(loss)} {_shown(loss.right, scope)}" if loss.right else ""
        to = f"{amount.number} {amount.unit}" + (f" x {limit.lanes}" if limit.lanes > 1 else "")
        self.notes.append(f"{_shown(loss.left, scope)}{right} degraded to {to}")

    def _own(self, part: Part, loss: Degrade) -> list[int]:
        """Return the wires whose rate is that of ``part``."""
        ends = self.hardware.vertices_of(part)
        wires = [wire for end in ends for wire in self._at.get(end, ())]
        self.findings.spend(WORK_OF_A_RATE * len(wires), loss.span)
        if part.kind in ("bus", "fabric"):
            pipes = zip(ends[::2], ends[1::2], strict=False)
            return [wire for way in pipes for wire in self._between.get(way, ())]
        limiting = self._limiting(wires)
        outside = [  # of a NIC the wires to networks
            wire
            for wire in limiting
            if any(self._kinds[end] in _NETWORK for end in self.hardware.wires[wire][:2] if end not in ends)
        ]
        return outside if part.kind == "nic" and outside else limiting

    def _limiting(self, wires: Sequence[int]) -> list[int]:
        return [wire for wire in wires if self.hardware.wires[wire][2].bandwidth is not None]


def _shown(words: Sequence[Word], scope: Scope) -> str:
    return ", ".join(scope.prefix + word.text for word in words)


def _arrow(loss: Down | Degrade) -> str:
    return "<->" if loss.both_ways else "->"
