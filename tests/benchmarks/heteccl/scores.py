"""Our figures beside the paper's: each number that it states is met or missed, with the reason.

In: entries of a run. Out: scores. A ratio is how many times as fast our program is as a rival's; its ceiling is
that of a program at the proved limit, which no program exceeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean

from benchmarks.heteccl import clusters
from benchmarks.heteccl.cases import Case, ProgramCase, SynthesisCase, all_cases
from benchmarks.heteccl.published import CLAIMS, SECONDS, TRAINING, Claim, Rival
from benchmarks.heteccl.run import Entries
from benchmarks.heteccl.training import MODELS, Model
from hetesynth.model.collective import CollectiveName

LAST_DIGIT = 0.005  # half of the last digit with which ratios are stated
_COLUMNS: dict[Rival, tuple[str, ...]] = {"NCCL": ("NCCL",), "TACCL": ("TACCL",), "TE-CCL": ("HS", "SE")}
IDEAL: dict[Rival, str] = {
    "NCCL": "NCCL: its own formula for equal servers, every NIC full; what a real NCCL loses on unequal servers "
    "is not modelled, and no published run of such servers says it",
    "TACCL": "TACCL: the model balances its routes over the whole cluster and orders them at once, where the "
    "paper's TACCL took sketches of one server, replicated, and what it had after 12 hours",
    "TE-CCL": "TE-CCL: the model HS has the fewest steps, found in seconds, and both models are lowered as our "
    "schedules are; the paper's TE-CCL took what 12 hours gave",
}
MODELLED = (
    "Figure 9 is a model with stated assumptions, on equal servers; other micro-batches and utilizations shift "
    "it, and the rivals are the models below"
)


@dataclass(frozen=True, slots=True)
class Score:
    """One number of the paper. ``ours`` None: not measured. ``ceiling``: of a program at the proved limit.
    ``rings``: the same as ``ours`` beside the best rings. ``why``: what makes ours smaller."""

    figure: str
    what: str
    paper: float
    ours: float | None
    met: bool
    why: str = ""
    unit: str = "x"
    ceiling: float | None = None
    rings: float | None = None

    @property
    def verdict(self) -> str:
        """Whether it is reached, and if not whether it could be."""
        if self.met:
            return "yes"
        beyond = self.ceiling is not None and self.ceiling < self.paper - LAST_DIGIT
        return "no: beyond the limit" if beyond else "no"


def cases_of(claim: Claim) -> list[ProgramCase]:
    """The cases that a claim is about."""
    tables = {"6": "6-7", "7": "6-7"}
    table = tables.get(claim.figure, "8" if claim.figure.startswith("8") else claim.figure)
    cases = [c for c in all_cases() if isinstance(c, ProgramCase) and c.table == table]
    cases = [c for c in cases if c.cluster not in clusters.NOT_THE_PAPERS]
    if claim.collective is not None:
        cases = [c for c in cases if c.collective == claim.collective]
    if not claim.figure.startswith("8"):
        return cases
    if claim.figure == "8f-h":
        return [c for c in cases if c.cluster != clusters.V100["8a"]]
    name = clusters.V100["8a" if claim.figure == "8e" else claim.figure]
    return [c for c in cases if c.cluster == name]


def ratios(claim: Claim, entries: Entries, columns: tuple[str, ...]) -> list[tuple[float, float]]:
    """Each ratio to what ``columns`` hold, with its ceiling."""
    pairs: list[tuple[float, float]] = []
    for case in cases_of(claim):
        entry = entries.get(case.name)
        for row in () if entry is None else entry.said.get("rows", ()):
            pairs += [
                (theirs / row["ours"], theirs / row["limit"])
                for theirs in map(row.get, columns)
                if theirs and row["ours"]
            ]
    return pairs


def claim_scores(claim: Claim, entries: Entries) -> Iterator[Score]:
    """A score for each number of a claim."""
    what = f"{claim.collective or 'both collectives'}, {claim.rival}"
    pairs = ratios(claim, entries, _COLUMNS[claim.rival])
    if not pairs:
        yield from (Score(claim.figure, what, number, None, met=False) for number in claim.numbers)
        return
    ceilings = [most for _, most in pairs]
    rings = [ours for ours, _ in ratios(claim, entries, ("rings",))] if claim.rival == "NCCL" else []
    last: tuple[str, Callable[[list[float]], float]] = ("mean", fmean) if claim.average else ("most", max)
    for word, of, paper in (("least", min, claim.least), (*last, claim.most)):
        if paper is not None:
            ours = of([ours for ours, _ in pairs])
            met = ours >= paper - LAST_DIGIT
            yield Score(
                claim.figure, f"{what}, {word}", paper, ours, met, "" if met else IDEAL[claim.rival],
                ceiling=of(ceilings), rings=of(rings) if rings else None,
            )  # fmt: skip


def second_scores(entries: Entries) -> Iterator[Score]:
    """Table 1: seconds of ``cegis`` where its steps equal the bound."""
    for gpus, (_, _, paper) in SECONDS.items():
        entry = entries.get(scale_case(gpus, "cegis").name)
        said = {} if entry is None else entry.said
        ours = said.get("seconds")
        optimal = said.get("steps") == said.get("bound")
        met = ours is not None and optimal and ours <= paper
        why = "" if met else "slower" if optimal else "its steps are above the bound"
        yield Score("Table 1", f"{gpus} GPUs, seconds", paper, ours, met, why, unit="s")


def scale_case(gpus: int, strategy: str) -> SynthesisCase:
    """The case of Table 1 with so many GPUs."""
    return SynthesisCase("Table 1", clusters.SCALE[gpus], "allgather", 1, strategy)


def allreduce_seconds(model: Model, entries: Entries) -> dict[str, float]:
    """Seconds of the allreduce of a model, of ours and of each rival; empty where it was not measured."""
    name = clusters.TRAINING[model.gpus]
    for case in all_cases():
        if isinstance(case, ProgramCase) and case.table == "9" and case.cluster == name and case.name in entries:
            rows = entries[case.name].said.get("rows", ())
            columns = ("ours", "NCCL", "TACCL", "HS", "SE")
            for row in rows:
                if row["size"] == model.size and all(row[column] for column in columns):
                    return {column: row[column] for column in columns}
    return {}


def shorter(model: Model, seconds: dict[str, float], rival: str) -> float:
    """Percent by which an iteration is shorter with our program."""
    theirs = model.iteration(seconds[rival])
    return 100.0 * (theirs - model.iteration(seconds["ours"])) / theirs


def training_scores(entries: Entries) -> Iterator[Score]:
    """Figure 9: percent of an iteration, least and most over the models."""
    for rival, (least, most) in TRAINING.items():
        saved = [
            shorter(model, seconds, column)
            for model in MODELS
            if (seconds := allreduce_seconds(model, entries))
            for column in _COLUMNS[rival]
        ]
        for word, paper, ours in (
            ("least", least, min(saved, default=None)),
            ("most", most, max(saved, default=None)),
        ):
            met = ours is not None and ours >= paper
            yield Score("9", f"iteration, {rival}, {word}", paper, ours, met, "" if met else MODELLED, unit="%")


def scores(entries: Entries) -> list[Score]:
    """All numbers that the paper states, in its order."""
    claimed = [score for claim in CLAIMS for score in claim_scores(claim, entries)]
    later = [score for score in claimed if score.figure in ("15", "16", "17")]
    earlier = [score for score in claimed if score.figure not in ("15", "16", "17")]
    return [*second_scores(entries), *earlier, *training_scores(entries), *later]


def of_table(table: str, collective: CollectiveName | None = None) -> list[Case]:
    """The cases of a table."""
    cases = [c for c in all_cases() if c.table == table]
    return [c for c in cases if collective is None or c.collective == collective]
