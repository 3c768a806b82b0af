"""The interpreter, compiled on this machine when it is first used, and kept in the user's cache."""

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.files.temporaries import remove, temporary

HERE = Path(__file__).parent
ARCHITECTURES = ("80", "90", "100")


def threads_command() -> list[str]:
    """Return the compiler and its flags for threads.cpp; ``CXX`` and ``CXXFLAGS`` are heeded. HetesynthError
    HS890: no compiler."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++", "c++"]
    compiler = next((path for name in names if (path := shutil.which(name))), None)
    if compiler is None:
        help_text = "install g++ (12 or later) or clang++, or name one with CXX; or use --backend inprocess"
        raise HetesynthError(f"no C++ compiler: no {' or '.join(names)} on PATH", code="HS890", help=help_text)
    flags = shlex.split(os.environ.get("CXXFLAGS", ""))
    return [compiler, "-std=c++17", "-O2", "-fPIC", "-pthread", *flags]


def device_command(architectures: Sequence[str] = ARCHITECTURES) -> list[str]:
    """Return nvcc and its flags for device.cu: those of the extra `nccl-device` where it is installed, else on
    PATH with NCCL's headers where the compiler finds them. HetesynthError HS890: no nvcc."""
    wheels = _nvidia()
    own = next((w / "cu13" / "bin" / "nvcc" for w in wheels if (w / "cu13" / "bin" / "nvcc").is_file()), None)
    nvcc = str(own) if own else shutil.which("nvcc")
    if nvcc is None:
        help_text = "pip install 'hetesynth[nccl-device]', or put nvcc of CUDA 13 on PATH"
        raise HetesynthError("no nvcc", code="HS890", help=help_text)
    places = [
        flag for w in wheels if (w / "nccl" / "include").is_dir() for flag in ("-I", str(w / "nccl" / "include"))
    ]
    code = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]
    code.append(f"-gencode=arch=compute_{architectures[-1]},code=compute_{architectures[-1]}")  # for later GPUs
    return [nvcc, "-std=c++17", "-O3", "-Xcompiler", "-fPIC", *code, *places]


def device_link_flags() -> list[str]:
    """Return the flags that link the kernel's library with NCCL and CUDA of the wheels, or the system's."""
    folders = [w / one / "lib" for w in _nvidia() for one in ("cu13", "nccl") if (w / one / "lib").is_dir()]
    nccl = any((folder / "libnccl.so.2").is_file() for folder in folders)
    paths = [flag for folder in folders for flag in (f"-L{folder}", f"-Xlinker=-rpath={folder}")]
    return [*paths, "-l:libnccl.so.2" if nccl else "-lnccl"]


def _nvidia() -> list[Path]:
    spec = find_spec("nvidia")
    return [Path(place) for place in spec.submodule_search_locations or ()] if spec else []


EXTRA = "the extra nccl-device brings nvcc and NCCL's headers, threads.cpp needs g++ 12 or clang 15"


def library(source: str, command: Sequence[str], after: Sequence[str] = ()) -> ctypes.CDLL:
    """Return the shared library of ``source``, compiled by ``command`` unless it was. ``after``: flags to link it.
    HetesynthError HS891: it does not compile or load."""
    texts = [(HERE / name).read_bytes() for name in sorted(os.listdir(HERE)) if name.endswith((".h", source))]
    key = hashlib.sha256(b"\0".join([*texts, *map(os.fsencode, [*command, *after])])).hexdigest()
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "hetesynth" / "compiled"
    path = folder / f"{source.partition('.')[0]}-{key[:16]}.so"
    try:
        if not path.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = temporary(path)
            line = [*command, "-shared", "-o", str(draft), str(HERE / source), *after]
            try:
                done = subprocess.run(
                    line, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL
                )
                if done.returncode:
                    said = done.stderr.strip()[-2000:]
                    raise HetesynthError(
                        f"{source} does not compile", code="HS891", help=f"{EXTRA}; {command[0]} said:\n{said}"
                    )
                os.replace(draft, path)
            finally:
                remove(draft)
        return ctypes.CDLL(str(path))
    except OSError as error:
        help_text = f"{folder} has to be a folder that can be written; XDG_CACHE_HOME names another place for it"
        raise HetesynthError(f"{source}: {error}", code="HS891", help=help_text) from None


if sys.byteorder != "little":  # tables are
    raise HetesynthError("this machine is not little-endian", code="HS890", help="use --backend inprocess")
