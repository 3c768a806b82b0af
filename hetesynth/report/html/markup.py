"""Text of anybody's as markup."""

from __future__ import annotations

from html import escape

from hetesynth.model.diagnostics import visible


def text_markup(text: str) -> str:
    """``text`` as markup; control characters and lone surrogates are shown escaped."""
    return escape(visible(text))
