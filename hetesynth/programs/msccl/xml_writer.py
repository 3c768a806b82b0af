"""Program -> MSCCL XML.

The hand-written readers of MSCCL, its executor and RCCL are not XML parsers, so the form is strict: no
declaration, double quotes, single spaces, plain decimals, one element a line, all ten attributes on every step.

``root`` is an attribute of our own: readers ignore those they do not know, and a verifier needs it.
"""

import re
from collections.abc import Mapping
from io import BytesIO

from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.program import BUFFERS, OPS, Program, ThreadBlock
from hetesynth.model.step_table import in_ops, table_of
from hetesynth.model.target import MAX_PROGRAM_NAME, PORTABLE, Target

_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_PROGRAM_NAME}}}", re.ASCII)
_SRC, _DST = (*BUFFERS, "i"), (*BUFFERS, "o")  # the last: of none


def check_name(name: str) -> None:
    """Refuse a name that is not 1 to ``MAX_PROGRAM_NAME`` of: ASCII letters, digits, ``_``, ``-``, ``.``."""
    if not _NAME.fullmatch(name):
        raise HetesynthError(
            f"the name {name[:80]!r} cannot stand in an MSCCL XML",
            code="HS506",
            help=f"use 1 to {MAX_PROGRAM_NAME} ASCII letters, digits, '_', '-' and '.'",
        )


def write_msccl_xml(program: Program, target: Target = PORTABLE) -> bytes:
    """The file for ``program``, with the spellings of ``target``. Equal programs give equal bytes. Raises
    HetesynthError HS506 for a name the readers could misread."""
    from lxml import etree

    check_name(program.name)
    used = max((tb.channel + 1 for gpu in program.gpus for tb in gpu.thread_blocks), default=1)
    if program.channels != used:
        raise InternalError(f"the program states {program.channels} channels and uses {used}")
    coll = target.reducescatter if program.collective == "reducescatter" else program.collective
    header: dict[str, object] = {
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
        header["root"] = program.root
    file = BytesIO()
    with etree.xmlfile(file, encoding="ascii") as xml, xml.element("algo", _texts(header)):
        for gpu in sorted(program.gpus, key=lambda gpu: gpu.rank):
            sizes = {"i_chunks": gpu.input_chunks, "o_chunks": gpu.output_chunks, "s_chunks": gpu.scratch_chunks}
            xml.write("\n  ")
            with xml.element("gpu", _texts({"id": gpu.rank, **sizes})):
                for tb in gpu.thread_blocks:
                    send, recv = (-1 if peer is None else peer for peer in (tb.send_peer, tb.recv_peer))
                    ends = _texts({"id": tb.id, "send": send, "recv": recv, "chan": tb.channel})
                    xml.write("\n    ")
                    if not tb.instructions:
                        xml.write(etree.Element("tb", ends))
                        continue
                    with xml.element("tb", ends):
                        xml.flush()
                        file.write(_steps(tb, target))
                xml.write("\n  ")  # an end of its own, also where it is empty
        xml.write("\n")
    return file.getvalue() + b"\n"


def _texts(attributes: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in attributes.items()}


def _steps(block: ThreadBlock, target: Target) -> bytes:
    """Return the steps of ``block``: numbers and words of the format, in which nothing has to be escaped."""
    rows = table_of(block.instructions)
    if not in_ops(rows, target.ops).all():
        raise InternalError(f"target {target.name} has not all operations of thread block {block.id}")
    lines = [""]
    for s, (op, at, src, to, dst, count, depid, step, awaited) in enumerate(rows.tolist()):
        ends = f'srcbuf="{_SRC[at]}" srcoff="{src}" dstbuf="{_DST[to]}" dstoff="{dst}" cnt="{count}"'
        waits = f'depid="{depid}" deps="{step}" hasdep="{awaited}"'
        lines.append(f'      <step s="{s}" type="{OPS[op]}" {ends} {waits}/>')
    return "\n".join([*lines, "    "]).encode("ascii")
