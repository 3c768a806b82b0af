"""The kernel of nccl-device compiles for every GPU that it is for, where the wheels of the extra are installed."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.runtimes.nccl_device import build

WHEELS = {name for place in build._nvidia() for name in ("cu13", "nccl") if (place / name).is_dir()}
pytestmark = pytest.mark.skipif(len(WHEELS) < 2, reason="the extra nccl-device is not installed: no nvcc")


@pytest.mark.parametrize("architecture", build.ARCHITECTURES)
def test_no_kernel_spills(architecture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*build.device_command([architecture]), "-Xptxas", "-v", "-c", "-o", str(tmp_path / "kernel.o")]
    done = subprocess.run([*command, str(build.HERE / "device.cu")], capture_output=True, text=True)
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    kernels = re.findall(
        r"entry function '\S*play\S*'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers",
        done.stderr,
        re.DOTALL,
    )
    assert len(kernels) == 4  # of float16, bfloat16, float32, int32
    for stores, loads, registers in kernels:
        assert (stores, loads) == ("0", "0") and int(registers) <= 128, kernels
    with capsys.disabled():
        print(f"\nsm_{architecture}: {', '.join(r for *_, r in kernels)} registers, no spills")


def test_the_library_has_its_calls_and_refuses_what_is_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    try:
        loaded = build.library("device.cu", build.device_command(["90"]), build.device_link_flags())
    except HetesynthError as error:
        pytest.fail(error.help)
    loaded.hetesynth_device_error.restype = ctypes.c_char_p
    handle = ctypes.c_void_p()
    size, number = ctypes.c_size_t, ctypes.c_double
    arguments = (None, 8, size(1 << 19), size(1 << 20), number(1.0), ctypes.byref(handle))
    assert loaded.hetesynth_device_create(bytes(64), size(64), *arguments) == 1
    assert loaded.hetesynth_device_error() == b"this is no table of this version"
