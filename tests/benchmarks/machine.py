"""What the figures were measured on and with."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import version
from pathlib import Path

from hetesynth import __version__
from hetesynth.processes import processors


def machine() -> dict[str, str]:
    """Processor, cores, memory, system and the versions of everything that computes."""
    processors_file = Path("/proc/cpuinfo")
    text = processors_file.read_text(encoding="utf-8", errors="replace") if processors_file.exists() else ""
    name = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    facts = {
        "processor": name[1] if name else platform.processor() or platform.machine(),
        "cores": str(processors()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB",
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        "hetesynth": __version__,
    }
    packages = ("z3-solver", "numpy", "scipy", "numba", "networkx", "lark", "lxml")
    return facts | {package: version(package) for package in packages}


def load() -> str:
    """How busy the machine is: processes wanting a core over the last minute."""
    return f"{os.getloadavg()[0]:.1f}"
