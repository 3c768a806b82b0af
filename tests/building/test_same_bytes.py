"""A cell comes to the same bytes whatever process makes it, on whatever machine."""

import shutil
from pathlib import Path

import pytest
from support.cell_variants import OLD_PROCESSOR, Circumstance, drawn_cells, example, generated

ONE_CORE = ("taskset", "-c", "0") if shutil.which("taskset") else ()
THREADS = {"OMP_NUM_THREADS": "8", "OPENBLAS_NUM_THREADS": "8"}
ELSEWHERE = {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "TZ": "Pacific/Kiritimati", "COLUMNS": "40"}

CIRCUMSTANCES = (
    Circumstance("hash seed 1, other order", {"PYTHONHASHSEED": "1"}, shuffle=1),
    Circumstance("hash seed 2, other order", {"PYTHONHASHSEED": "2"}, shuffle=2),
    Circumstance("any hash seed, one core", {"PYTHONHASHSEED": "random"}, before=ONE_CORE),
    Circumstance("eight threads", THREADS),
    Circumstance("elsewhere, optimized", ELSEWHERE, flags=("-O",), folder=Path("/")),
    Circumstance("kernels interpreted", {"NUMBA_DISABLE_JIT": "1"}),
    Circumstance("older processor", OLD_PROCESSOR),
    Circumstance("busy machine", busy=4),
    Circumstance("each alone", alone=True),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the generated topologies and of caches."""
    return tmp_path_factory.mktemp("cells")


def test_all_at_once(folder: Path) -> None:
    """Another hash seed, order, folder and locale, no asserts."""
    cells = [
        [example("ring8"), "allgather", "rccl-6", [1000, 64_000]],
        [generated(28, folder), "allreduce", "mscclpp", 1],
    ]
    other = Circumstance(
        "all of it",
        {**ELSEWHERE, **THREADS, "PYTHONHASHSEED": "2"},
        ("-O",),
        (),
        folder,
        shuffle=1,
    )
    expected = Circumstance("as it comes").digests(cells)
    assert all(len(digest) == 64 for digest in expected.values()), expected
    assert other.digests(cells) == expected


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, str]:
    """The digests of the cells as they come."""
    return Circumstance("as it comes").digests(_cells(folder))


def _cells(folder: Path) -> list[list[object]]:
    examples = [example(name) for name in ("ring8", "h20_4p8", "dgx1", "v100_fail_one8", "h20_16")]
    return drawn_cells(
        48, 1, [*examples, *(generated(seed, folder) for seed in (0, 1, 6, 13, 14, 20, 23, 42, 47))]
    )


@pytest.mark.slow
@pytest.mark.parametrize("circumstance", CIRCUMSTANCES, ids=lambda circumstance: circumstance.name)
def test_each_alone(circumstance: Circumstance, expected: dict[str, str], folder: Path) -> None:
    """Cells of every collective for every target."""
    answers = circumstance.digests(_cells(folder))
    assert sum(len(digest) == 64 for digest in expected.values()) > len(expected) * 3 // 4
    assert {cell for cell in expected if answers[cell] != expected[cell]} == set()
