"""What the figures were measured on and with."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hetesynth import __version__
from hetesynth.processes import processors

PACKAGES = ("z3-solver", "numpy", "scipy", "numba", "networkx", "lark", "lxml")


def machine() -> dict[str, str]:
    """Processor, cores, memory, system and the versions of everything that computes."""
    facts = {
        "processor": _processor(),
        "cores": str(processors()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        "hetesynth": __version__,
    }
    return facts | {package: _version(package) for package in PACKAGES}


def load() -> str:
    """How busy the machine is: processes wanting a core over the last minute."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB"
    except (ValueError, OSError, AttributeError):
        return "unknown"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
