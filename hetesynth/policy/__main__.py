"""``python -m hetesynth.policy`` writes the page of all thresholds to standard output."""

from __future__ import annotations

import sys

from hetesynth.policy.page import page

sys.stdout.write(page())
