"""Twenty virtual devices for JAX, which has to be told before it starts."""

from __future__ import annotations

import os

_FLAGS = (os.environ.get("XLA_FLAGS"), "--xla_force_host_platform_device_count=20")
os.environ["XLA_FLAGS"] = " ".join(filter(None, _FLAGS))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
