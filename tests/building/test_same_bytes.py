"""A cell comes to the same bytes whatever process makes it, on whatever machine."""

from pathlib import Path

from support.cell_variants import OLD_PROCESSOR, digests, example, generated

THREADS = {"OMP_NUM_THREADS": "8", "OPENBLAS_NUM_THREADS": "8"}
ELSEWHERE = {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "TZ": "Pacific/Kiritimati", "COLUMNS": "40"}


def test_all_at_once(tmp_path: Path) -> None:
    """Another hash seed, order, folder, locale and processor, no asserts."""
    cells = [
        [example("ring8"), "allgather", "rccl-6", [1000, 64_000]],
        [generated(28, tmp_path), "allreduce", "mscclpp", 1],
    ]
    expected = digests(cells, {})
    assert all(len(digest) == 64 for digest in expected.values()), expected
    elsewhere = {**ELSEWHERE, **THREADS, **OLD_PROCESSOR, "PYTHONHASHSEED": "2"}
    assert digests(cells[::-1], elsewhere, ("-O",), tmp_path) == expected
