"""Facts about runtimes stand once: nothing that another table says disagrees with the table of targets."""

from __future__ import annotations

from hetesynth.judge.msccl.lint_readers import ANY, READERS
from hetesynth.model.target import TARGETS
from hetesynth.programs.mscclpp.lower import RESIDENT_BLOCKS

XML = [target for target in TARGETS.values() if not target.format.plan]


def test_no_target_exceeds_what_any_reader_takes() -> None:
    for name in (
        "max_steps",
        "max_thread_blocks",
        "max_channel",
        "max_peers_per_channel",
        "max_count",
        "max_offset",
    ):
        assert getattr(ANY, name) == max(getattr(target, name) for target in XML), name
    assert all(target.ops <= ANY.ops for target in XML)


def test_the_portable_target_is_within_every_other() -> None:
    portable = TARGETS["portable"]
    for target in XML:
        assert portable.ops <= target.ops and portable.multiprocessors <= target.multiprocessors
        for name in ("max_steps", "max_thread_blocks", "max_channel", "max_count", "resident_thread_blocks"):
            assert getattr(portable, name) <= getattr(target, name), (target.name, name)


def test_every_required_attribute_of_a_reader_is_one_that_some_target_requires() -> None:
    required = {attribute for target in XML for attribute in target.required_attributes}
    assert all(reader.required <= required for reader in READERS.values())


def test_what_is_written_fits_the_smallest_usual_gpu() -> None:
    for target in TARGETS.values():
        assert target.resident_thread_blocks <= target.multiprocessors
    assert TARGETS["mscclpp"].multiprocessors >= RESIDENT_BLOCKS
