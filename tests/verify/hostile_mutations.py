"""Mutations of files, each named by a seed: what a hostile or broken file may look like.

``mutated(seed, texts)`` is the same bytes on every machine. Nothing here knows what a file means; ``XML`` and
``ANY`` are the mutations, so that readers of other formats can add their own to ``ANY``.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

Mutation = Callable[[random.Random, bytes], bytes]
NUMBERS = [
    *(
        b"-1 -2 0 1 2 7 31 64 71 72 127 128 255 256 1024 4095 32767 32768 65535 65536 99999 2147483647 "
        b"2147483648 -2147483648 4294967296 9223372036854775807 0x10 010 1e9 NaN +1 1.5"
    ).split(),
    b"9" * 40,
    b"9" * 5000,
    b"",
    b" 1",
    b"\xd9\xa3",
]
TOKENS = [
    b'<', b'>', b'/', b'=', b'"', b"'", b' ', b'\t', b'\n', b'\r\n', b'\x00', b'\xff\xfe',
    b'\xef\xbb\xbf', b'<!--', b'-->', b"<?xml version='1.0'?>", b'<![CDATA[', b']]>', b'&amp;',
    b'&#x41;', b'&a;', b'<!DOCTYPE a>', b'/>', b'{', b'}', b'[', b']', b',', b':', b'\\u0000',
]  # fmt: skip
WORDS = (
    b"algo gpu tb step s r cpy re nop rcs rrs rrc rrcs ra i o Simple LL LL128 allreduce allgather "
    b"reducescatter reduce_scatter custom broadcast gather alltoall scatter reduce ngpus depid cnt hasdep"
).split()


def _span(rng: random.Random, text: bytes, longest: int) -> tuple[int, int]:
    start = rng.randrange(len(text) + 1)
    return start, min(len(text), start + rng.randrange(longest + 1))


def flip(rng: random.Random, text: bytes) -> bytes:
    edited = bytearray(text)
    for _ in range(rng.randint(1, 8)):
        if edited:
            edited[rng.randrange(len(edited))] ^= 1 << rng.randrange(8)
    return bytes(edited)


def cut(rng: random.Random, text: bytes) -> bytes:
    start, end = _span(rng, text, 200)
    return text[:start] + text[end:]


def truncate(rng: random.Random, text: bytes) -> bytes:
    return text[: rng.randrange(len(text) + 1)]


def insert_token(rng: random.Random, text: bytes) -> bytes:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(TOKENS) * rng.choice([1, 1, 1, 2, 50]) + text[at:]


def copy_span(rng: random.Random, text: bytes) -> bytes:
    start, end = _span(rng, text, 400)
    at = rng.randrange(len(text) + 1)
    return text[:at] + text[start:end] * rng.choice([1, 1, 2, 20]) + text[at:]


def one_match(pattern: bytes, new: Callable[[random.Random, bytes], bytes]) -> Mutation:
    """Replaces one match of ``pattern``."""

    def mutation(rng: random.Random, text: bytes) -> bytes:
        matches = list(re.finditer(pattern, text))
        if not matches:
            return text
        at = rng.choice(matches)
        return text[: at.start()] + new(rng, at.group()) + text[at.end() :]

    return mutation


change_number = one_match(rb"-?[0-9]+", lambda rng, _: rng.choice(NUMBERS))
change_word = one_match(rb"[A-Za-z_]+[0-9]*", lambda rng, _: rng.choice(WORDS))
drop_attribute = one_match(rb' [A-Za-z_]+="[^"]*"', lambda rng, old: old * rng.choice([0, 0, 2, 20]))


def move_line(rng: random.Random, text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    for _ in range(rng.randint(1, 3)):
        if len(lines) > 1:
            line = lines.pop(rng.randrange(len(lines)))
            if rng.random() < 0.7:
                lines.insert(rng.randrange(len(lines) + 1), line)
    return b"".join(lines)


def repeat_line(rng: random.Random, text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines) + 1) if lines else 0
    return b"".join([*lines[:at], *lines[at : at + 1] * rng.choice([2, 3, 70, 300, 1100]), *lines[at + 1 :]])


def nothing_left(rng: random.Random, text: bytes) -> bytes:
    return rng.choice([b"", b" \n", b"\x00" * 100, bytes(rng.randrange(256) for _ in range(300))])


def huge_value(rng: random.Random, text: bytes) -> bytes:
    at = rng.choice([m.end() for m in re.finditer(rb'="', text)] or [0])
    return text[:at] + rng.choice([b"n", b"9", b"&a;", b"<", b"'"]) * rng.choice([300, 5000, 70000]) + text[at:]


def nest(rng: random.Random, text: bytes) -> bytes:
    name = rng.choice([b"gpu", b"tb", b"a", b"algo"])
    depth = rng.choice([3, 70, 20000])
    at = text.find(b">") + 1
    return text[:at] + b"<%s>" % name * depth + b"</%s>" % name * rng.choice([0, depth]) + text[at:]


def entities(rng: random.Random, text: bytes) -> bytes:
    """Expansion: ten levels of ten, or one of a megabyte used over and over, or a file from elsewhere."""
    levels = b"".join(b'<!ENTITY e%d "%s">' % (k, b"&e%d;" % (k - 1) * 10) for k in range(1, 11))
    bomb = rng.choice(
        [
            b'<!DOCTYPE a [<!ENTITY e0 "ha">' + levels + b"]>",
            b'<!DOCTYPE a [<!ENTITY e10 "' + b"x" * 100000 + b'">]>',
            b'<!DOCTYPE a [<!ENTITY e10 SYSTEM "file:///etc/passwd">]>',
            b'<!DOCTYPE a SYSTEM "http://localhost:1/a.dtd">',
        ]
    )
    used = text.replace(b'name="', b'name="' + b"&e10;" * rng.choice([1, 100]), 1)
    return bomb + used if rng.random() < 0.8 else used


def unbalanced(rng: random.Random, text: bytes) -> bytes:
    """Openings that never close, for scanners that look ahead."""
    piece = rng.choice(
        [b"<a ", b'<a b="', b"<!--", b"<a b='c\" ", b"<", b"</", b'="', b"<a" + b' b="c"' * 50 + b" "]
    )
    at = rng.randrange(len(text) + 1)
    return text[:at] + piece * rng.choice([1, 100, 3000]) + text[at:]


ANY: tuple[Mutation, ...] = (
    flip, cut, truncate, insert_token, copy_span, *[change_number] * 3, *[change_word] * 2, move_line, repeat_line,
)  # fmt: skip
XML: tuple[Mutation, ...] = (*ANY, drop_attribute, huge_value, nest, entities, unbalanced, nothing_left)


def mutated(seed: int, texts: Sequence[bytes], mutations: Sequence[Mutation] = XML) -> bytes:
    """One of ``texts`` after one to four mutations; deterministic in ``seed``."""
    rng = random.Random(seed)
    text = rng.choice(texts)
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 4])):
        text = rng.choice(mutations)(rng, text)
    return text
