"""XML of anybody's: no entities, no document type, no network, limits on size, depth and number of elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetesynth.topology.importers.reading import Source, refused

if TYPE_CHECKING:
    from lxml import etree

MAX_BYTES = 8_000_000
MAX_ELEMENTS = 50_000
MAX_DEPTH = 64


def root_of(source: Source) -> etree._Element:
    """The root element; HetesynthError HS732 for what is no XML or beyond a limit."""
    from lxml import etree

    if len(source.data) > MAX_BYTES:
        raise refused(source, f"it has more than {MAX_BYTES} bytes")
    if b"\0" in source.data or b"<!DOCTYPE" in source.data or b"<!ENTITY" in source.data:
        raise refused(source, "it declares a document type, or is no text of one byte a character")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(source.data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise refused(source, f"it is no XML: {str(error)[:200]}") from error
    depth = 0
    level = [root]
    count = 0
    while level:
        count += len(level)
        depth += 1
        if count > MAX_ELEMENTS or depth > MAX_DEPTH:
            raise refused(
                source, f"it has more than {MAX_ELEMENTS} elements, or they nest more than {MAX_DEPTH} deep"
            )
        level = [child for element in level for child in element if isinstance(child.tag, str)]
    return root
