"""Tables of nccl-device: the program comes back, the same bytes each time, and what is refused."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from execute.execute_cases import exchange, gather_and_sum, ring_allreduce
from runtimes.kernel_cases import programs
from verify.program_builders import edited, nop

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.program import Program, ThreadBlock
from hetesynth.runtimes.nccl_device.binding import tables
from hetesynth.runtimes.nccl_device.pack import HEADER_WORDS, MAGIC, VERSION, unpack


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_a_program_comes_back(name: CollectiveName) -> None:
    for program in programs("h20_4p8", name):
        packed = tables(program)
        assert tuple(map(unpack, packed)) == program.gpus and packed == tables(program)


@pytest.mark.parametrize("program", [ring_allreduce(5, 3), gather_and_sum(4), exchange(3)])
def test_fused_steps_dependences_and_nops_come_back(program: Program) -> None:
    def odd(tb: ThreadBlock) -> ThreadBlock:  # a number that is no position, and a nop without buffers
        return replace(tb, id=9, instructions=(nop((0, 0)), *tb.instructions))

    program = edited(program, 0, 0, lambda tb: replace(tb, channel=0))
    gpu = program.gpus[0]
    extra = odd(ThreadBlock(9, None, None, 0, ()))
    program = replace(program, gpus=(replace(gpu, thread_blocks=(*gpu.thread_blocks, extra)), *program.gpus[1:]))
    assert tuple(map(unpack, tables(program))) == program.gpus


def test_words_are_where_the_page_says() -> None:
    table = tables(gather_and_sum(3))[0]
    words = struct.unpack(f"<{len(table) // 4}i", table)
    # ranks, rank, blocks, steps, ins, outs, the most of both, chunks of i, o, s and of a block, root
    assert words[:16] == (MAGIC, VERSION, len(words), 3, 0, 3, 5, 2, 0, 2, 1, 1, 1, 2, 1, 0)
    assert words[HEADER_WORDS:][:18] == (0, 0, 0, 3, -1, -1, 1, 0, 3, 1, 0, -1, 2, 0, 4, 1, 1, -1)
    assert words[HEADER_WORDS + 18 :][:4] == (1, 0, 2, 0)
    assert words[HEADER_WORDS + 22 :][:16] == (3, 0, 0, 1, 0, 1, -1, -1, 4, 2, 0, 1, 0, 1, 1, 0)  # cpy, re


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda tb: replace(tb, send_peer=7), "no other rank"),
        (lambda tb: replace(tb, channel=3), "does not receive there"),
        (lambda tb: replace(tb, send_peer=None), "receives on channel 0 from rank 1, which does not send there"),
        (lambda tb: replace(tb, send_peer=None, recv_peer=None), "sends on channel 0 to rank 1, which does not"),
        (lambda tb: replace(tb, instructions=(nop((5, 0)),)), "there is no step 0 of thread block 5"),
        (lambda tb: replace(tb, instructions=(replace(tb.instructions[0], count=9),)), "the buffer has 4 chunks"),
        (lambda tb: replace(tb, instructions=(replace(tb.instructions[0], src=None),)), "it names no buffer"),
    ],
)
def test_what_no_interpreter_plays_is_refused(change, text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(HetesynthError, match=text) as refused:
        tables(edited(ring_allreduce(4), 1, 0, change))
    assert refused.value.code == "HS892"


def test_a_table_of_another_version_is_refused() -> None:
    table = tables(ring_allreduce(3))[0]
    for wrong in (b"", table[:-4], table[:4] + b"\x02" + table[5:]):
        with pytest.raises(HetesynthError, match="no table of version 1"):
            unpack(wrong)
