"""The data of a run: exact, reproducible, and what the definitions of the collectives say, element by element."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from hetesynth.errors import HetesynthError
from hetesynth.execute.arithmetic import Arithmetic, Dtype, Reduction
from hetesynth.execute.memory import Memory, Reference
from hetesynth.execute.outcome import Fault
from hetesynth.model.collective import COLLECTIVE_NAMES, REDUCING, ROOTED, CollectiveName

BLOCK = 5


def numbers(reduces: bool, dtype: Dtype = "int32", reduction: Reduction = "sum", ranks: int = 4) -> Arithmetic:
    return Arithmetic(reduction, dtype, ranks, 7, reduces)


@pytest.mark.parametrize("ranks", [2, 16, 100, 256])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_sums_are_exact_in_any_order(dtype: Dtype, ranks: int) -> None:
    if dtype == "bfloat16" and importlib.util.find_spec("ml_dtypes") is None:
        pytest.skip("ml_dtypes is not installed: no bfloat16")
    kind = numbers(True, dtype, ranks=ranks)
    parts = [kind.contribution(r, 0, 200) for r in range(ranks)]
    assert len({x for part in parts for x in part.astype(np.int64).tolist()}) > 1
    forward, backward = parts[0], parts[-1]
    for k in range(1, ranks):
        forward = kind.combine(forward, parts[k])
        backward = kind.combine(backward, parts[-1 - k])
    assert forward.tobytes() == backward.tobytes()
    assert np.array_equal(forward.astype(np.int64), sum(part.astype(np.int64) for part in parts))


def test_a_sum_that_cannot_be_exact_is_refused() -> None:
    with pytest.raises(HetesynthError, match="not exact in bfloat16"):
        numbers(True, "bfloat16", ranks=300)
    assert numbers(True, "bfloat16", "max", ranks=300).reduces


def _slow_expectation(
    name: CollectiveName, n: int, root: int, rank: int, inputs: list[list[int]]
) -> list[int] | None:
    """One element at a time, from the manual: inputs[r] is the send buffer of rank r."""
    if name in ("reduce", "gather") and rank != root:
        return None
    if name in ("allgather", "gather"):
        return [inputs[k // BLOCK][k % BLOCK] for k in range(n * BLOCK)]
    if name == "alltoall":
        return [inputs[k // BLOCK][rank * BLOCK + k % BLOCK] for k in range(n * BLOCK)]
    if name in ("allreduce", "reduce"):
        return [sum(inputs[r][k] for r in range(n)) for k in range(BLOCK)]
    if name == "reducescatter":
        return [sum(inputs[r][rank * BLOCK + k] for r in range(n)) for k in range(BLOCK)]
    if name == "broadcast":
        return inputs[root][:BLOCK]
    return inputs[root][rank * BLOCK : (rank + 1) * BLOCK]


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_every_collective_against_its_definition(name: CollectiveName) -> None:
    n, root = 4, 2 if name in ROOTED else None
    kind = numbers(name in REDUCING, "float32")
    reference = Reference(name, n, root, BLOCK)
    inputs = [kind.contribution(r, 0, reference.input_elements) for r in range(n)]
    for rank in range(n):
        wanted = _slow_expectation(name, n, 2, rank, [x.tolist() for x in inputs])
        found = reference.expected(rank, kind)
        if wanted is None or found is None:
            assert wanted is None and found is None
        else:
            assert np.array_equal(found, np.array(wanted, dtype=np.float32), equal_nan=True)
            assert len(found) == reference.output_elements


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_every_single_wrong_byte_is_seen(dtype: Dtype) -> None:
    kind = numbers(False, dtype)
    reference = Reference("allgather", 4, None, 8)
    memory = Memory(reference, kind, 1, reference.buffers(1, False), chunk=4, scratch=0, in_place=False)
    blank = memory.check(0.0)
    assert blank.wrong > 0.9 * 4 * 8 * 4, "an output that nobody wrote"
    expected = reference.expected(1, kind)
    assert expected is not None
    out = memory.view("o", 0, 8, slice(None))
    out[:] = expected.reshape(8, 4)
    assert memory.check(0.0).wrong == 0
    assert memory.check(0.0).checked == (32 + 8) * 4
    for at in (0, 17, 127):
        raw = out.reshape(-1).view(np.uint8)
        raw[at] ^= 1
        check = memory.check(0.0)
        assert (check.wrong, check.first[0].chunk, check.first[0].offset) == (1, at // 16, at % 16)
        assert check.first[0].expected != check.first[0].found
        raw[at] ^= 1
    memory.view("i", 0, 1, slice(None))[0, 0] = 0
    assert {w.buffer for w in memory.check(0.0).first} == {"input"}


def test_nothing_is_touched_outside_a_buffer() -> None:
    reference = Reference("broadcast", 3, 1, 8)
    memory = Memory(reference, numbers(False), 0, reference.buffers(0, False), chunk=4, scratch=1, in_place=False)
    for buffer, offset, count in (("i", 0, 1), ("o", 2, 1), ("o", -1, 1), ("o", 1, 2), ("s", 1, 1), ("o", 0, 0)):
        with pytest.raises(Fault, match="outside the buffer"):
            memory.view(buffer, offset, count, slice(None))  # type: ignore[arg-type]
    assert memory.view("o", 1, 1, slice(1, 3)).shape == (1, 2)
