"""What a manifest means: ranges, names, what overrules what, rules; what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetesynth.deploy.manifest.reader import read_manifest, size_range
from hetesynth.deploy.manifest.values import CellOptions, Gates, Manifest
from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import SourceError
from hetesynth.model.size_range import SizeRange

RIGHT = Path(__file__).resolve().parent / "right"
RING = (RIGHT.parent / "wrong" / "ring.dsl").read_text()


def read(folder: Path, text: str) -> Manifest:
    (folder / "ring.dsl").write_text(RING)
    path = folder / "hetesynth.toml"
    path.write_text(f"version = 1\n{text}")
    return read_manifest(path)


ONE = '[[cluster]]\ntopology = "ring.dsl"\n'


def test_the_shortest_manifest_has_the_defaults_of_the_command_line(tmp_path: Path) -> None:
    (cell,) = read(tmp_path, f'{ONE}collectives = ["broadcast"]\n').cells
    assert cell.name == "ring/portable/broadcast/1 chunk" and cell.stem == "broadcast-1-chunk"
    assert cell.options == CellOptions(root=0) and cell.gates == Gates()


@pytest.mark.parametrize(
    ("text", "low", "high", "spelt"),
    [
        ("1MB..64MB", 10**6, 64 * 10**6, "1MB..64MB"),
        ("..1MB", 0, 10**6, "..1MB"),
        ("64MB..", 64 * 10**6, None, "64MB.."),
        ("64MB..64000KB", 64 * 10**6, 64 * 10**6, "64MB"),
        ("1.5MB..2MiB", 1_500_000, 2 << 20, "1500KB..2MiB"),
        ("0.5KB..1024B", 500, 1024, "500B..1KiB"),
    ],
)  # fmt: skip
def test_a_range_has_one_spelling(text: str, low: int, high: int | None, spelt: str) -> None:
    assert size_range(text) == SizeRange(low, high, spelt)
    assert size_range(spelt) == SizeRange(low, high, spelt)


def test_an_end_where_another_range_begins_is_that_ones(tmp_path: Path) -> None:
    text = f'{ONE}collectives = ["allgather"]\nsizes = ["1MB..2MB", "4MB..", "..1MB", "2MB", "3MB"]\n'
    closed = {cell.extent_text: cell.extent.closed for cell in read(tmp_path, text).cells}  # type: ignore[union-attr]
    assert closed == {"1MB..2MB": False, "4MB..": True, "..1MB": False, "2MB": True, "3MB": True}


def test_what_a_cluster_states_overrules_the_defaults(tmp_path: Path) -> None:
    defaults = '[defaults]\ncollectives = ["allgather"]\nchunks = 2\nchunk_size = "4MB"\n'
    defaults += "gates = { steps = 9, proven = true }\n"
    first, second, third = read(
        tmp_path,
        f"""{defaults}
{ONE}name = "a"
{ONE}name = "b"
sizes = ["1MB.."]
gates.steps = 5
{ONE}name = "c"
chunks = 3
collectives = ["reduce"]
root = 2
gates.proven = false
""",
    ).cells
    assert (first.extent, first.options.chunking.chunk_bytes, first.gates.steps) == (2, 4_000_000, 9)
    assert second.extent == SizeRange(10**6, None, "1MB..") and second.options.chunking.chunk_bytes is None
    assert (second.gates.steps, second.gates.proven) == (5, True)
    assert (third.extent, third.collective, third.options.root, third.gates.proven) == (3, "reduce", 2, False)
    assert first.options.root is None


def test_later_rules_win_and_gates_are_laid_over_by_key(tmp_path: Path) -> None:
    cells = read(
        tmp_path,
        f"""[defaults]
collectives = ["allgather", "allreduce"]
targets = ["rccl-6", "mscclpp"]
sizes = ["..1MB", "1MB..16MB", "16MB.."]
gates.percent_of_limit = 50

{ONE}
[[rule]]
collectives = ["allreduce"]
effort = 2
gates.steps = 7

[[rule]]
sizes = ["1MB.."]
targets = ["mscclpp"]
effort = 3
strategy = "timed"
gates = {{ percent_of_limit = 0 }}

[[rule]]
collectives = ["allgather"]
targets = ["rccl-6"]
skip = true

[[rule]]
collectives = ["allgather"]
targets = ["rccl-6"]
sizes = ["..1MB"]
skip = false
""",
    ).cells
    by_name = {cell.name.removeprefix("ring/"): cell for cell in cells}
    assert [name for name in by_name if name.startswith("rccl-6/allgather")] == ["rccl-6/allgather/..1MB"]
    assert len(cells) == 10
    both = by_name["mscclpp/allreduce/1MB..16MB"]
    assert (both.options.effort, both.options.strategy, both.gates) == (3, "timed", Gates(steps=7))
    small = by_name["mscclpp/allreduce/..1MB"]
    assert (small.options.effort, small.options.strategy, small.gates.percent_of_limit) == (2, "auto", 50)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe", b"\x00", b"#" * (1 << 20) + b"\n#", b"a = " + b"[" * 5000 + b"]" * 5000, b"a = {" * 900,
        b"a = " + b"1" * 9000, b"a" * 20_000, b"[" + b"a . " * 2000 + b"a]", b"version = 1\rx = 2",
    ],
)  # fmt: skip
def test_hostile_content_gets_a_message(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "hetesynth.toml"
    path.write_bytes(content)
    with pytest.raises(HetesynthError) as caught:
        read_manifest(path)
    assert caught.value.code in ("HS860", "HS861", "HS862") and caught.value.help
    assert len(caught.value.render()) < 3000


def test_what_is_no_readable_file_gets_a_message(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path, tmp_path / "none", tmp_path / "loop", tmp_path / "a\0b", tmp_path / ("n" * 5000)):
        with pytest.raises(HetesynthError) as caught:
            read_manifest(path)
        assert caught.value.code == "HS860" and caught.value.help


def test_there_are_limits_to_what_is_asked_for(tmp_path: Path) -> None:
    ranges = ", ".join(f'"{i}KB..{i + 1}KB"' for i in range(1, 257))
    clusters = "".join(f'{ONE}name = "c{i}"\n' for i in range(40))
    with pytest.raises(SourceError, match="more than 10000 schedules"):
        read(tmp_path, f'[defaults]\ncollectives = ["allgather"]\nsizes = [{ranges}]\n{clusters}')
    with pytest.raises(SourceError) as caught:
        read(tmp_path, f'[defaults]\ncollectives = ["allgather"]\nsizes = [{ranges}, "1MB"]\n{ONE}')
    assert "`sizes` has 257 entries: 1 to 256 are needed" in caught.value.message
