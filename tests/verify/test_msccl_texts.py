"""What is said of MSCCL XML texts that are odd in one stated way: whole verdicts of the reader, in words.

The tables in ``golden`` are read by people: after a change on purpose ``pytest --update-golden`` writes them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from hetesynth.judge.msccl.reader import ReadResult, read_program
from hetesynth.judge.rules import BY_ID
from hetesynth.model.step_table import Steps
from hetesynth.model.verdict import Violation

TABLES = Path(__file__).parent / "golden"
STEP = (
    '<step s="{}" type="cpy" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0"'
    ' cnt="1" depid="-1" deps="-1" hasdep="0"/>\n'
)
BLOCK = '<tb id="{}" send="-1" recv="-1" chan="0">\n'
ALGO = (
    '<algo name="a" proto="Simple" nchannels="1" nchunksperloop="1" ngpus="1" coll="allreduce" inplace="1"'
    ' outofplace="0" minBytes="0" maxBytes="0">\n'
)
GPU = '<gpu id="0" i_chunks="1" o_chunks="1" s_chunks="1">\n'
TEXT = (
    ALGO
    + GPU
    + BLOCK.format(0)
    + STEP.format(0)
    + STEP.format(1)
    + "</tb>\n"
    + BLOCK.format(1)
    + STEP.format(0)
    + "</tb>\n</gpu>\n</algo>\n"
)
READ = read_program(TEXT.encode(), "x")


def with_(*edits: tuple[str, str]) -> str:
    """TEXT with the first place of each changed."""
    text = TEXT
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def line(v: Violation) -> str:
    return f"{BY_ID[v.rule or ''].name}, line {v.line}: {v.message}"


def said(read: ReadResult) -> str:
    """All findings, and whatever was read otherwise than from TEXT."""
    lines = [f"  {line(v)}" for v in read.violations]
    lines += [f"  portability: {line(v)}" for v in read.portability]
    lines += [f"  warning: {line(v)}" for v in read.warnings]
    for name in ("program", "lines", "numbers", "later", "algo_line"):
        lines += [f"  {change}" for change in changes(getattr(READ, name), getattr(read, name), name)]
    return "\n".join(lines)


def changes(was: Any, now: Any, name: str) -> Iterator[str]:
    """What of a record of records and tuples is not what it was."""
    if is_dataclass(was) and type(was) is type(now):
        for field in fields(was):
            yield from changes(getattr(was, field.name), getattr(now, field.name), f"{name}.{field.name}")
    elif all(isinstance(of, tuple | Steps) for of in (was, now)) and len(was) == len(now):
        for k, (one, other) in enumerate(zip(was, now, strict=True)):
            yield from changes(one, other, f"{name}[{k}]")
    elif was != now:
        yield f"{name}: {now}"


def table(texts: Mapping[str, str | bytes]) -> bytes:
    reads = {
        name: read_program(text if isinstance(text, bytes) else text.encode(), "x") for name, text in texts.items()
    }
    return "".join(f"{name}\n{said(read)}\n" for name, read in reads.items()).encode()


def attributes(count: int, name: str = "x", value: str = "") -> str:
    return "".join(f' {name}{k}="{value}"' for k in range(count))


TB = '<tb id="0" send'
LEXICAL: dict[str, str | bytes] = {
    "as it should be": TEXT,
    "nothing": "",
    "a line end": "\n",
    "a control byte on line 2": b"\n\x1b<algo>",
    "a byte order mark": b"\xef\xbb\xbf" + TEXT.encode(),
    "not ASCII, on line 2": with_(('<gpu id="0"', '<gpu id="0" x="é"')),
    "a line end first": "\n" + with_(('chan="0"', 'chan="-1"'), ("<tb", "\t<tb")),
    "a tab between elements": with_(("<gpu", "\t<gpu")),
    "a tab and blanks, twice": with_(("<tb", " \t <tb"), ("</gpu", " \t </gpu")),
    "text on a line of its own": with_(("</gpu>", "\n  a text of more than twenty letters, and é\n</gpu>")),
    "text of twenty-one letters": with_(("</gpu>", "abcdefghijklmnopqrstu</gpu>")),
    "text first": "é\n" + TEXT,
    "text after a comment": "<!-- -->text" + TEXT,
    "text last, of one letter": TEXT + "x",
    "text three times": with_(("<gpu", "x<gpu"), ("<tb", "x<tb"), ("</gpu", "x</gpu")),
    "DOCTYPE": with_(("<gpu", "\n<!doctype a><gpu")),
    "CDATA": with_(("<gpu", "<![CDATA[ ]]><gpu")),
    "a declaration": '<?xml version="1.0"?>' + TEXT,
    "the shortest declaration": "<?>" + TEXT,
    "an open declaration": "\n<?xml " + TEXT,
    "a comment": with_(("<gpu", '<!-- <gpu a="1"> --><gpu')),
    "the shortest comment": with_(("<gpu", "<!----><gpu")),
    "an open comment": with_(("<gpu", "\n<!--- <gpu")),
    "a comment that ends where it begins": with_(("<gpu", "<!--><gpu")),
    "a comment's first word holds =": with_(("<gpu", "<!--a= --><gpu")),
    "a comment's second word holds =": with_(("<gpu", "<!--a b= --><gpu")),
    "a comment's second line holds =": with_(("<gpu", "<!--a\nb=\n--><gpu")),
    "no blank, but a tab in a comment's first word": with_(("<gpu", "<!--\ta=1 --><gpu")),
    "a comment's first word ends before =": with_(("<gpu", "<!--a/b= --><!--a>b= --><gpu")),
    "a banner of 253 letters": with_(("<gpu", "<!" + "-" * 252 + " --><gpu")),
    "a banner of 254 letters": with_(("<gpu", "<!" + "-" * 253 + " --><gpu")),
    "a closing tag with a blank": with_(("</tb>", "</tb >")),
    "a closing tag with a blank before its name": with_(("</tb>", "</ tb>")),
    "a closing tag with an attribute": with_(("</tb>", '</tb id="0">')),
    "a closing tag without a name": with_(("</tb>", "\n</>")),
    "a closing tag that never ends": with_(("</tb>", "\n</tb" + " " * 1000 + ">")),
    "a tag without a name": with_(("<tb", "\n< tb")),
    "a tag that never ends": TEXT + "\n<tb",
    "an open quote": TEXT + '\n<tb id="0>',
    "a tag of 65536 bytes": with_((TB, '<tb x="' + "x" * (65536 - 50) + '" id="0" send')),
    "a tag of more": with_((TB, '<tb x="' + "x" * 65536 + '" id="0" send')),
    "an element's name of 253 letters": with_(("<tb", f"<{'x' * 253}/><tb")),
    "an element's name of 254 letters": with_(("<tb", f"<{'x' * 254}/><tb")),
    "an element's name of 254 letters, not ASCII": with_(("<tb", f"<{'x' * 254} a='é'/><tb")),
    "an attribute's name of 254 letters": with_((TB, f'<tb {"x" * 254}="" id="0" send')),
    "an attribute's name of 255 letters": with_((TB, f'<tb {"x" * 255}="" id="0" send')),
    "a value of 255 letters": with_((TB, f'<tb x="{"x" * 255}" id="0" send')),
    "a value of 256 letters": with_((TB, f'<tb x="{"x" * 256}" id="0" send')),
    "a long attribute's value of 256 letters": with_((TB, f'<tb {"y" * 50}="{"x" * 256}" id="0" send')),
    "16 attributes": with_((TB, "<tb" + attributes(12) + ' id="0" send')),
    "17 attributes": with_((TB, "<tb" + attributes(13) + ' id="0" send')),
    "16 attributes, two blanks at the end": with_((' chan="0">', ' chan="0"' + attributes(12) + "  >")),
    "13 blanks in a row": with_((TB, "<tb" + " " * 13 + 'id="0" send')),
    "14 blanks in a row": with_((TB, "<tb" + " " * 14 + 'id="0" send')),
    "two blanks each": with_(
        ("<tb", "\n<tb"), (' cnt="1" depid="-1" deps="-1"', '  cnt="1"  depid="-1"  deps="-1"')
    ),
    "columns": with_((' type="cpy"', "       " + ' type="cpy"')),
    "an attribute twice": with_((TB, '<tb id="0" id="9" id="8" send')),
    "an attribute of forty-one letters twice": with_((TB, '<tb id="0"' + f' {"x" * 41}=""' * 2 + " send")),
    "single quotes": with_((' chan="0">', " chan='0'>")),
    "single quotes before the slash": with_((' hasdep="0"/>', " hasdep='0'/>")),
    "blanks beside =": with_((' chan="0">', ' chan = "0">')),
    "a blank before =": with_((' chan="0">', ' chan ="0">')),
    "a blank behind =": with_((' chan="0">', ' chan= "0">')),
    "a blank before the slash": with_((' hasdep="0"/>', ' hasdep="0" />')),
    "no blank between attributes": with_(('<tb id="0" send', '\n<tb id="0"send')),
    "no blank behind single quotes": with_(('<tb id="0" send', "<tb id='0'send")),
    "no blank behind the element's name": with_(("<tb", '<tbé="1"')),
    "no quotes": with_((' chan="0">', " chan=0>")),
    "a word alone": with_((TB, '<tb here id="0" send')),
    "a slash inside": with_((TB, '<tb / id="0" send')),
    "a line end in a tag": with_((" chan", "\n chan")),
    "a carriage return in a tag": with_((" chan", "\r chan")),
    "a tab in a tag": with_((" chan", "\tchan")),
    "an entity": with_((TB, '<tb x="&lt;" id="0" send')),
    "< in a value": with_((TB, '<tb x="<" id="0" send')),
    "> in a value": with_((TB, '<tb x=">" id="0" send')),
    "a capital": with_(("<tb", "<TB"), ("</tb", "</TB")),
}


def test_what_is_said_of_odd_spellings(golden: Callable[[Path, bytes], None]) -> None:
    golden(TABLES / "msccl_spellings.txt", table(LEXICAL))


NOP = STEP.format(1).replace("cpy", "nop").replace('depid="-1" deps="-1"', 'depid="1" deps="0"')
WHAT = '<what a="1">\n<gpu id="5">\n<step/></gpu></what>\n'
LATER = '<gpu id="{}"><tb><step/><step/></tb></gpu>'
SECOND = (
    "<algo>" + LATER.format(0) + LATER.format(1234567890) + LATER.format("x") + LATER.format(123456789) + "</algo>"
)
ELEMENTS: dict[str, str | bytes] = {
    "no step": ALGO + GPU + BLOCK.format(0) + "</tb></gpu></algo>",
    "empty elements": ALGO + GPU + BLOCK.format(0).replace(">", "/>") + "</gpu></algo>",
    "an empty gpu": ALGO + GPU.replace(">", "/>") + "</algo>",
    "an empty algo": ALGO.replace(">", "/>"),
    "only a comment": "<!-- -->",
    "only another root": "<what/>",
    "a long root": f"<{'x' * 41}/>",
    "another root first": "<what></what>\n" + TEXT,
    "a nop with buffers": with_((STEP.format(1), NOP)),
    "steps closed each": with_(('hasdep="0"/>', 'hasdep="0"></step>')),
    "a closing tag too many": with_(("</tb>", "</tb>\n</tb>")),
    "a closing tag too many at the end": TEXT + "</algo>",
    "a closing tag of nothing at the end": TEXT + f"</{'x' * 41}>",
    "a closing tag of nothing": with_(("</tb>", "</what></tb>")),
    "a closing tag of something, misspelt": with_(("</tb>", "</tx>")),
    "a closing tag missing": with_(("</tb>\n", "")),
    "two closing tags missing": with_(("</tb>\n<tb", "<tb"), ("</tb>\n</gpu>", "")),
    "the last closing tag missing": with_(("</algo>", "")),
    "three closing tags missing": with_(("</tb>\n</gpu>\n</algo>\n", "")),
    "an element nobody knows, not closed": with_(("<gpu", f"<{'x' * 41}>\n<gpu")),
    "an element nobody knows, with others in it": with_(("<gpu", WHAT + "<gpu")),
    "two of them": with_(("<gpu", WHAT * 2 + "<gpu")),
    "two of them in two places": with_(("<gpu", WHAT + "<gpu"), ("<tb", WHAT + "<tb")),
    "two different ones": with_(("<gpu", "<what/><why/><gpu")),
    "a step in a gpu": with_(("<tb", STEP.format(0) + "<tb")),
    "a block in a block": with_(("<step", BLOCK.format(7) + "</tb><step")),
    "a gpu in a step": with_(('hasdep="0"/>', 'hasdep="0">' + GPU + "</gpu></step>")),
    "a defect behind the first gpu": with_(
        ("</algo>", '<gpu id="1" i_chunks="x" o_chunks="1" s_chunks="1"></gpu></algo>')
    ),
    "a defect behind the first block": with_(("</tb>", '</tb><tb id="x" send="-1" recv="-1" chan="0"></tb>')),
    "a defect behind a step": with_(("</tb>", '</tb><tb id="2" send="-2" recv="-1" chan="0"></tb>')),
    "a second algo": TEXT + SECOND,
    "a second algo, a gpu without id": TEXT + "<algo>\n<gpu/><tb/></algo>",
    "a second algo, another element in it": TEXT + '<algo>\n<what/></algo><algo><gpu id="0"><tb/></gpu></algo>',
    "a second root": TEXT + f"\n<{'x' * 41}><gpu/></{'x' * 41}>",
    "a second algo in another": TEXT + '<what><algo><gpu id="0"><tb/></gpu></algo></what>',
    "no number where it belongs": with_(('<step s="1"', '<step s="0"')),
    "no number where it belongs in two blocks": with_(
        ('<step s="0"', '<step s="5"'), ('<step s="1"', '<step s="6"'), ('<step s="0"', '<step s="7"')
    ),
    "the largest sizes": with_(('i_chunks="1" o_chunks="1"', 'i_chunks="65536" o_chunks="0"')),
    "larger than these": with_(('i_chunks="1" o_chunks="1"', 'i_chunks="65537" o_chunks="65537"')),
    "a negative size": with_(('s_chunks="1"', 's_chunks="-1"')),
    "peers and channels": with_(('send="-1" recv="-1" chan="0"', 'send="-2" recv="-2" chan="-1"')),
    "peers": with_(('send="-1" recv="-1"', 'send="0" recv="0"')),
    "residual add": with_(('type="cpy"', 'type="ra"')),
    "no operation": with_(('type="cpy"', 'type="copy"')),
    "buffers": with_(('srcbuf="i"', 'srcbuf="x"'), ('dstbuf="s"', f'dstbuf="{"x" * 41}"')),
    "hasdep": with_(('hasdep="0"', 'hasdep="2"'), ('hasdep="0"', 'hasdep="1"'), ('hasdep="0"', 'hasdep="-1"')),
    "hasdep of a nop": with_((STEP.format(1), NOP.replace('hasdep="0"', 'hasdep="2"'))),
    "a thread block waited for": with_(('depid="-1" deps="-1"', 'depid="0" deps="7"')),
    "a negative one": with_(('depid="-1" deps="-1"', 'depid="-2" deps="7"')),
    "attributes of a step": with_((' srcbuf="i" srcoff="0"', ""), (' type="cpy"', ""), (' deps="-1"', "")),
    "attributes of a block": with_((' id="0" send="-1"', ' id="0"'), (' chan="0"', "")),
    "attributes of a gpu": with_((' id="0" i_chunks="1"', ""), (' s_chunks="1"', "")),
    "proto": with_(('proto="Simple"', 'proto="SIMPLE"')),
    "no proto": with_((' proto="Simple"', "")),
    "another proto": with_(('proto="Simple"', 'proto="LL256"')),
    "no name": with_((' name="a"', "")),
    "no collective": with_((' coll="allreduce"', "")),
    "another collective": with_(('coll="allreduce"', 'coll="sum"')),
    "custom": with_(('coll="allreduce"', 'coll="custom"')),
    "reduce_scatter": with_(('coll="allreduce"', 'coll="reduce_scatter"')),
    "no sizes, no outofplace, inplace": with_((' outofplace="0" minBytes="0" maxBytes="0"', "")),
    "no outofplace, not inplace": with_(('inplace="1" outofplace="0"', 'inplace="0"')),
    "neither": with_(('inplace="1"', 'inplace="0"')),
    "other numbers of both": with_(('inplace="1" outofplace="0"', 'inplace="2" outofplace="-1"')),
    "sizes": with_(('minBytes="0" maxBytes="0"', 'minBytes="7" maxBytes="7"')),
    "sizes of no call": with_(('minBytes="0" maxBytes="0"', 'minBytes="8" maxBytes="7"')),
    "sizes without end": with_(('minBytes="0" maxBytes="0"', 'minBytes="8" maxBytes="0"')),
    "large sizes": with_(('minBytes="0" maxBytes="0"', 'minBytes="0x80000000" maxBytes="4294967296"')),
    "no channel": with_(('nchannels="1"', 'nchannels="0"')),
    "channels missing": with_((' nchannels="1"', "")),
    "4096 ranks": with_(('ngpus="1"', 'ngpus="4096"')),
    "4097 ranks": with_(('ngpus="1"', 'ngpus="4097"')),
    "no ranks": with_((' ngpus="1"', "")),
    "65536 chunks": with_(('nchunksperloop="1"', 'nchunksperloop="65536"')),
    "65537 chunks": with_(('nchunksperloop="1"', 'nchunksperloop="65537"')),
    "no chunks": with_(('nchunksperloop="1"', 'nchunksperloop="0"')),
    "a root": with_((' maxBytes="0"', ' maxBytes="0" root="0"')),
    "a root in words": with_((' maxBytes="0"', ' maxBytes="0" root="first"')),
    "a word of forty-one letters": with_(('nchannels="1"', f'nchannels="{"x" * 41}"')),
}


def test_what_is_said_of_odd_elements(golden: Callable[[Path, bytes], None]) -> None:
    golden(TABLES / "msccl_elements.txt", table(ELEMENTS))


PLAIN, SMALL = "a plain decimal integer", "a number below 2^31"
