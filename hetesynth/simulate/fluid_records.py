"""The records of the simulator's kernel: names and types of their fields."""

from __future__ import annotations

Fields = tuple[tuple[str, str], ...]

TASK: Fields = (
    ("delay", "f8"),
    ("size", "f8"),  # bytes, held ones included
    ("after", "f8"),
    ("limit", "f8"),  # the rate when it is alone
    ("ready", "f8"),  # results
    ("begin", "f8"),
    ("sent", "f8"),
    ("end", "f8"),
    ("left", "f8"),  # bytes not yet sent at ``since``
    ("since", "f8"),
    ("speed", "f8"),  # present rate
    ("key", "f8"),  # when its next event is
    ("missing", "i4"),  # tasks still waited for
    ("phase", "i4"),
    ("place", "i4"),  # in the heap, -1: not there
    ("first_use", "i4"),
    ("end_use", "i4"),
    ("first_follower", "i4"),
    ("end_follower", "i4"),
    ("is_waiting", "i4"),
)
RESOURCE: Fields = (
    ("rate", "f8"),  # bytes per second
    ("asked", "f8"),  # what its flows would draw if each were alone
    ("spare", "f8"),  # bytes per second not yet given
    ("level", "f8"),  # the rate of the flows that it holds back, while it is tight; infinite: it holds back none
    ("first_flow", "i4"),  # in ``flows``
    ("active", "i4"),  # flows
    ("open", "i4"),  # flows without a rate yet
    ("tight", "i4"),
    ("is_touched", "i4"),
    ("is_member", "i4"),
)
USE: Fields = (("resource", "i4"), ("task", "i4"), ("seat", "i4"))  # seat: in ``flows``
