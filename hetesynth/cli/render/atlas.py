"""The short report after ``atlas``.

In: the index of an atlas. Out: text. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hetesynth.model.words import clock_line, counted, microseconds, size_text


def atlas_report(
    index: dict[str, Any], folder: str, files: int, place: str = "", decisions: Iterable[str] = ()
) -> str:
    """The verdict, then features, ranges and the frontier, a line each. ``place``: what else is in the folder;
    ``decisions``: how they were made."""
    features = index["topology"]
    bisection = features["inverse_bisection_us_per_MB"]
    lines = [
        index["verdict"],
        f"{index['cluster']}: {index['collective']}, {index['ranks']} ranks, simulated, runtime costs "
        f"{'counted' if index['runtime_costs'] else 'left out'}",
        f"  topology     diameter {counted(features['diameter_hops'], 'hop')} ({features['diameter_us']:.4g} us), "
        f"inverse bisection bandwidth {'-' if bisection is None else f'{bisection:.4g}'} us/MB",
    ]
    for entry in index["ranges"]:
        end = "any size" if entry["high"] is None else size_text(entry["high"])
        lines.append(f"  {size_text(entry['low']):>9} to {end}: {entry['candidate']}, {entry['steps']} steps")
        lines += _plans_end(index, entry)
    if index["left_to_library"]:
        sizes = ", ".join(map(size_text, index["left_to_library"]))
        lines.append(f"  no program   the library is quicker, which calls are left to: {sizes}")
    lines += [
        f"  frontier     {row['latency_us']:.4g} us + {row['us_per_MB']:.4g} us/MB: {row['candidate']}"
        f"{'' if row['in_atlas'] else ' (not needed)'}"
        for row in index["frontier"]
    ]
    lines += [f"  fits no file {row['candidate']}: {row['reason']}" for row in index["unfit"]]
    if index["cut_short"]:
        lines.append("  cut short    more time may find quicker ones")
    if index["decided_by_clock"]:
        lines.append(f"  clock        {clock_line(index['decided_by_clock'])}")
    lines.append(f"  wrote        {files} files into {folder}{f'; {place}' if place else ''}")
    for warned in index["warnings"]:
        lines += [f"  WARNING      {warned['message']}", f"               {warned['help']}"]
    lines += decisions
    if index["runtime_advice"] is not None:
        lines.append(f"  next         {index['runtime_advice']['message']}")
    return "\n".join(lines)


def _plans_end(index: dict[str, Any], entry: dict[str, Any]) -> list[str]:
    """Where plans for MSCCL++ end before their range does, or before all sizes are covered."""
    limit, most = entry["mscclpp_max_bytes"], entry["max_bytes"]
    last = entry is index["ranges"][-1]
    if "mscclpp" not in index["targets"] or (limit == most and not last):
        return []
    if limit is None:
        return ["               without plans for MSCCL++, whose offsets have 32 bits"]
    blocks = " a rank" if index["collective"] in ("gather", "scatter") else ""
    text = f"plans for MSCCL++ end at {size_text(limit)}{blocks}, as far as its 32-bit offsets reach"
    return [f"               {text}"]


def losses_report(index: dict[str, Any], folder: str, files: int, place: str = "") -> str:
    """How many losses share a schedule, the worst of them beside the whole cluster, and those without one."""
    losses, whole = index["losses"], index["whole"]
    repaired = [entry for entry in losses if "steps" in entry]
    alike = sum("like" in entry for entry in losses)
    lines = [
        f"{index['cluster']}: {index['collective']}, each of {counted(len(losses), 'part')} lost",
        f"  whole        {_figures(whole)}",
        f"  repaired     {len(repaired)}; {alike} more are like these but for names",
    ]
    if repaired:
        worst = max(repaired, key=lambda entry: (entry["program_predicted_us"] or 0.0, entry["steps"]))
        lines.append(f"  worst        without {worst['without']}: {_figures(worst)}")
    lines += [f"  none         without {e['without']}: {e['refusal']}" for e in losses if "refusal" in e]
    lines.append(f"  wrote        {files} files into {folder}{f'; {place}' if place else ''}")
    return "\n".join(lines)


def _figures(entry: dict[str, Any]) -> str:
    program = entry["program_predicted_us"]
    steps = f"{counted(entry['steps'], 'step')}, lower bound {entry['lower_bound']}"
    return steps if program is None else f"program {microseconds(program / 1e6)}, {steps}"
