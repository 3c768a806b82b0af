"""YAML that anybody wrote: bytes in, plain values out; no tags, no aliases, limits on size, depth and number."""

from __future__ import annotations

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.tool_text import refused

MAX_YAML = 1_000_000
MAX_YAML_EVENTS = 200_000
MAX_YAML_DEPTH = 20


def plain_yaml(data: bytes, name: str) -> object:
    """The value of a YAML text: plain values only, without aliases, within limits."""
    import yaml

    help_ = "YAML is read without tags and aliases, up to 1 MB"
    if len(data) > MAX_YAML:
        raise HetesynthError(f"{name} is larger than {MAX_YAML} bytes", code="HS741", help=help_)
    try:
        depth = 0
        for count, event in enumerate(yaml.parse(data, Loader=yaml.SafeLoader)):
            opens = isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent)
            depth += opens - isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent)
            if depth > MAX_YAML_DEPTH or count > MAX_YAML_EVENTS or isinstance(event, yaml.AliasEvent):
                raise HetesynthError(
                    f"{name} nests too deep, is too long, or has aliases", code="HS741", help=help_
                )
        return yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200]
        raise refused(name, f"not YAML: {reason}", help_) from error
    except (TypeError, AttributeError) as error:  # an unhashable key
        raise refused(name, "not YAML that can be used: a key that is a list", help_) from error
