"""Program -> MSCCL XML.

In: a program. Out: bytes that the hand-written readers of MSCCL, its executor and RCCL accept. They are not XML
parsers, so the form is strict: no declaration, double quotes, single spaces, plain decimals, one element a
line, all ten attributes on every step. Knows nothing of schedules.

``root`` is an attribute of our own: readers ignore those they do not know, and a verifier needs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO

from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.program import GpuProgram, Instruction, Program, ThreadBlock
from hetesynth.model.target import MAX_PROGRAM_NAME, PORTABLE, Target

_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_PROGRAM_NAME}}}", re.ASCII)
_NOWHERE = (("i", -1), ("o", -1))


def write_msccl_xml(program: Program, target: Target = PORTABLE) -> bytes:
    """The file for ``program``, with the spellings of ``target``. Equal programs give equal bytes.

    Raises HetesynthError HS506 for a name the readers could misread.
    """
    stream = BytesIO()  # line by line: a large program has more lines than their bytes would take
    for line in _algo(program, target):
        stream.write(line.encode("ascii"))
        stream.write(b"\n")
    return stream.getvalue()


def check_name(name: str) -> None:
    """Refuse a name that is not 1 to ``MAX_PROGRAM_NAME`` of: ASCII letters, digits, ``_``, ``-``, ``.``."""
    if not _NAME.fullmatch(name):
        raise HetesynthError(
            f"the name {name[:80]!r} cannot stand in an MSCCL XML",
            code="HS506",
            help=f"use 1 to {MAX_PROGRAM_NAME} ASCII letters, digits, '_', '-' and '.'",
        )


def _algo(program: Program, target: Target) -> Iterator[str]:
    check_name(program.name)
    used = max((tb.channel + 1 for gpu in program.gpus for tb in gpu.thread_blocks), default=1)
    if program.channels != used:
        raise InternalError(f"the program states {program.channels} channels and uses {used}")
    coll = target.reducescatter if program.collective == "reducescatter" else program.collective
    attributes: dict[str, object] = {
        "name": program.name,
        "proto": program.protocol,
        "nchannels": program.channels,
        "nchunksperloop": program.chunks_per_loop,
        "ngpus": program.ranks,
        "coll": coll,
        "inplace": int(program.in_place),
        "outofplace": int(program.out_of_place),
        "minBytes": program.min_bytes,
        "maxBytes": program.max_bytes,
    }
    if program.root is not None:
        attributes["root"] = program.root
    yield f"<algo {_attributes(attributes)}>"
    for gpu in sorted(program.gpus, key=lambda gpu: gpu.rank):
        yield from _gpu(gpu, target)
    yield "</algo>"


def _gpu(gpu: GpuProgram, target: Target) -> Iterator[str]:
    sizes = {"i_chunks": gpu.input_chunks, "o_chunks": gpu.output_chunks, "s_chunks": gpu.scratch_chunks}
    yield f"  <gpu {_attributes({'id': gpu.rank, **sizes})}>"
    for tb in gpu.thread_blocks:
        yield from _thread_block(tb, target)
    yield "  </gpu>"


def _thread_block(tb: ThreadBlock, target: Target) -> Iterator[str]:
    send = -1 if tb.send_peer is None else tb.send_peer
    recv = -1 if tb.recv_peer is None else tb.recv_peer
    yield f"    <tb {_attributes({'id': tb.id, 'send': send, 'recv': recv, 'chan': tb.channel})}>"
    for s, instruction in enumerate(tb.instructions):
        if instruction.op not in target.ops:
            raise InternalError(f"target {target.name} has no {instruction.op}")
        yield _step(s, instruction)
    yield "    </tb>"


def _step(s: int, x: Instruction) -> str:
    srcbuf, srcoff = _NOWHERE[0] if x.src is None else (x.src.buffer, x.src.offset)
    dstbuf, dstoff = _NOWHERE[1] if x.dst is None else (x.dst.buffer, x.dst.offset)
    depid, deps = (-1, -1) if x.depends is None else x.depends
    return (
        f'      <step s="{s}" type="{x.op}" srcbuf="{srcbuf}" srcoff="{srcoff}"'
        f' dstbuf="{dstbuf}" dstoff="{dstoff}" cnt="{x.count}"'
        f' depid="{depid}" deps="{deps}" hasdep="{int(x.has_dependents)}"/>'
    )


def _attributes(values: dict[str, object] | dict[str, int]) -> str:
    return " ".join(f'{name}="{value}"' for name, value in values.items())
