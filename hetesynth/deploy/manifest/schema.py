"""The JSON Schema of ``hetesynth.toml`` for editors."""

from __future__ import annotations

import json
import sys
from typing import Any

from hetesynth.deploy.manifest.keys import (
    MANIFEST,
    MAX_TEXT,
    Kind,
    Number,
    Several,
    Table,
    Tables,
    Text,
    Truth,
    Whole,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TITLE = "hetesynth.toml"


def schema() -> dict[str, Any]:
    """The schema of the whole file."""
    meaning = "Which schedules `hetesynth build` keeps: clusters, collectives, sizes, runtimes, gates."
    return {"$schema": DIALECT, "title": TITLE, "description": meaning, **_kind(MANIFEST)}


def schema_text() -> str:
    """The same as it is published."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _kind(kind: Kind) -> dict[str, Any]:
    match kind:
        case Text(choices=choices, pattern=pattern):
            limits: dict[str, Any] = {"enum": [*choices]} if choices else {"minLength": 1, "maxLength": MAX_TEXT}
            return {"type": "string", **limits, **({"pattern": pattern} if pattern else {})}
        case Whole():
            return {"type": "integer", "minimum": kind.least, "maximum": kind.most}
        case Number():
            return {
                "type": "number",
                "exclusiveMinimum" if kind.above else "minimum": kind.least,
                "maximum": kind.most,
            }
        case Truth():
            return {"type": "boolean"}
        case Several() | Tables():
            unique = {"uniqueItems": True} if isinstance(kind, Several) else {}
            items = {"items": _kind(kind.of), "minItems": kind.least, "maxItems": kind.most}
            return {"type": "array", **items, **unique}
        case Table():
            required = [key.name for key in kind.keys if key.required]
            properties = {}
            for key in kind.keys:
                facts = {"description": key.meaning, "default": key.default, "examples": [*key.examples]}
                stated = {name: value for name, value in facts.items() if value not in (None, [])}
                properties[key.name] = _kind(key.kind) | stated
            table = {"type": "object", "properties": properties, "additionalProperties": False}
            return table | ({"required": required} if required else {})


if __name__ == "__main__":
    sys.stdout.write(schema_text())
