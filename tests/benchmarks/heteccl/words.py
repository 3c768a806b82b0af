"""Prose of the page in lines of the usual length."""

from __future__ import annotations

import textwrap

WIDTH = 118


def wrapped(text: str, indent: str = "") -> str:
    """``text`` in lines of up to ``WIDTH``, the second and later ones after ``indent``."""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
