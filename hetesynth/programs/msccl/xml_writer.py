"""Program -> MSCCL XML.

The hand-written readers of MSCCL, its executor and RCCL are not XML parsers, so the form is strict: no
declaration, double quotes, single spaces, plain decimals, one element a line, all ten attributes on every step.

``root`` is an attribute of our own: readers ignore those they do not know, and a verifier needs it.
"""

import re
from collections.abc import Mapping
from io import BytesIO

from lxml import etree

from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.program import Program
from hetesynth.model.target import MAX_PROGRAM_NAME, PORTABLE, Target

_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_PROGRAM_NAME}}}", re.ASCII)
_STEP = ("s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep")


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
    check_name(program.name)
    used = max((tb.channel + 1 for gpu in program.gpus for tb in gpu.thread_blocks), default=1)
    if program.channels != used:
        raise InternalError(f"the program states {program.channels} channels and uses {used}")
    coll = target.reducescatter if program.collective == "reducescatter" else program.collective
    header = {
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
    stream = BytesIO()  # GPU by GPU: a large program has more elements than their bytes would take
    with etree.xmlfile(stream, encoding="ascii") as file, file.element("algo", _texts(header)):
        for gpu in sorted(program.gpus, key=lambda gpu: gpu.rank):
            chunks = {"i_chunks": gpu.input_chunks, "o_chunks": gpu.output_chunks, "s_chunks": gpu.scratch_chunks}
            element = etree.Element("gpu", _texts({"id": gpu.rank, **chunks}))
            element.text = "\n  "  # an end of its own, also where it is empty
            for tb in gpu.thread_blocks:
                send, recv = (-1 if peer is None else peer for peer in (tb.send_peer, tb.recv_peer))
                ends = {"id": tb.id, "send": send, "recv": recv, "chan": tb.channel}
                block = etree.SubElement(element, "tb", _texts(ends))
                for s, x in enumerate(tb.instructions):
                    if x.op not in target.ops:
                        raise InternalError(f"target {target.name} has no {x.op}")
                    srcbuf, srcoff = ("i", -1) if x.src is None else (x.src.buffer, x.src.offset)
                    dstbuf, dstoff = ("o", -1) if x.dst is None else (x.dst.buffer, x.dst.offset)
                    depid, deps = (-1, -1) if x.depends is None else x.depends
                    values = (s, x.op, srcbuf, srcoff, dstbuf, dstoff, x.count, depid, deps, int(x.has_dependents))
                    etree.SubElement(block, "step", dict(zip(_STEP, map(str, values), strict=True)))
            etree.indent(element, level=1)
            file.write("\n  ")
            file.write(element)
        file.write("\n")
    return stream.getvalue() + b"\n"


def _texts(attributes: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in attributes.items()}
