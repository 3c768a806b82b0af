"""Program -> MSCCL XML.

The hand-written readers of MSCCL, its executor and RCCL are not XML parsers, so the form is strict: no
declaration, double quotes, single spaces, plain decimals, one element a line, all ten attributes on every step.

``root`` is an attribute of our own: readers ignore those they do not know, and a verifier needs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO

from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.program import Program
from hetesynth.model.target import MAX_PROGRAM_NAME, PORTABLE, Target

_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_PROGRAM_NAME}}}", re.ASCII)


def write_msccl_xml(program: Program, target: Target = PORTABLE) -> bytes:
    """The file for ``program``, with the spellings of ``target``. Equal programs give equal bytes.

    Raises HetesynthError HS506 for a name the readers could misread.
    """
    stream = BytesIO()  # line by line: a large program has more lines than their bytes would take
    for line in _lines(program, target):
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


def _lines(program: Program, target: Target) -> Iterator[str]:
    check_name(program.name)
    used = max((tb.channel + 1 for gpu in program.gpus for tb in gpu.thread_blocks), default=1)
    if program.channels != used:
        raise InternalError(f"the program states {program.channels} channels and uses {used}")
    coll = target.reducescatter if program.collective == "reducescatter" else program.collective
    root = "" if program.root is None else f' root="{program.root}"'
    yield (
        f'<algo name="{program.name}" proto="{program.protocol}" nchannels="{program.channels}"'
        f' nchunksperloop="{program.chunks_per_loop}" ngpus="{program.ranks}" coll="{coll}"'
        f' inplace="{int(program.in_place)}" outofplace="{int(program.out_of_place)}"'
        f' minBytes="{program.min_bytes}" maxBytes="{program.max_bytes}"{root}>'
    )
    for gpu in sorted(program.gpus, key=lambda gpu: gpu.rank):
        yield (
            f'  <gpu id="{gpu.rank}" i_chunks="{gpu.input_chunks}" o_chunks="{gpu.output_chunks}"'
            f' s_chunks="{gpu.scratch_chunks}">'
        )
        for tb in gpu.thread_blocks:
            send, recv = (-1 if peer is None else peer for peer in (tb.send_peer, tb.recv_peer))
            yield f'    <tb id="{tb.id}" send="{send}" recv="{recv}" chan="{tb.channel}">'
            for s, x in enumerate(tb.instructions):
                if x.op not in target.ops:
                    raise InternalError(f"target {target.name} has no {x.op}")
                srcbuf, srcoff = ("i", -1) if x.src is None else (x.src.buffer, x.src.offset)
                dstbuf, dstoff = ("o", -1) if x.dst is None else (x.dst.buffer, x.dst.offset)
                depid, deps = (-1, -1) if x.depends is None else x.depends
                yield (
                    f'      <step s="{s}" type="{x.op}" srcbuf="{srcbuf}" srcoff="{srcoff}"'
                    f' dstbuf="{dstbuf}" dstoff="{dstoff}" cnt="{x.count}"'
                    f' depid="{depid}" deps="{deps}" hasdep="{int(x.has_dependents)}"/>'
                )
            yield "    </tb>"
        yield "  </gpu>"
    yield "</algo>"
