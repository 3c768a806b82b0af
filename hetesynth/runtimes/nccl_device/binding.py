"""The kernel for tensors of PyTorch, through its C calls. Never run, as no GPU was at hand."""

import ctypes
from typing import Any

from hetesynth.execute.job import block_chunks
from hetesynth.model.program import Program
from hetesynth.model.target import TARGETS
from hetesynth.runtimes.nccl_device.build import device_command, device_link_flags, library
from hetesynth.runtimes.nccl_device.pack import pack

_DTYPES = ("float16", "bfloat16", "float32", "int32")
_OPS = ("sum", "max", "min")


def tables(program: Program) -> list[bytes]:
    """Return the table of each rank, for ``hetesynth_device_create``. HetesynthError HS811, HS892."""
    return pack(program.gpus, block_chunks(program), program.root)


def kernel() -> ctypes.CDLL:
    """Return the kernel and its C calls, compiled where it was not. HetesynthError HS890, HS891."""
    loaded = library("device.cu", device_command(), device_link_flags())
    loaded.hetesynth_device_error.restype = ctypes.c_char_p
    return loaded


class DeviceCollective:
    """A program on this rank of ``group`` (None: all ranks). Made, and closed, by all ranks at once; calls come in
    one order on all ranks. ``max_block_bytes``: bytes of the largest ``count`` elements. ``timeout``: seconds.

    ``group`` has to be of NCCL 2.30 or later, with its communicator made: call one of its collectives first."""

    def __init__(self, program: Program, max_block_bytes: int, group: Any = None, timeout: float = 60.0) -> None:
        import torch
        import torch.distributed as dist

        self._torch, self._library, self._handle = torch, kernel(), ctypes.c_void_p()
        table, fifo = (
            tables(program)[dist.get_rank(group)],
            TARGETS["nccl-device"].fifo("Simple", program.collective),
        )
        backend = (group or dist.group.WORLD)._get_backend(torch.device("cuda"))
        self._check(
            self._library.hetesynth_device_create(
                table,
                ctypes.c_size_t(len(table)),
                ctypes.c_void_p(backend._comm_ptr()),
                fifo.slots,
                ctypes.c_size_t(fifo.slice_bytes),
                ctypes.c_size_t(max_block_bytes),
                ctypes.c_double(timeout),
                ctypes.byref(self._handle),
            )
        )

    @property
    def chunks(self) -> int:
        """The number that ``count`` has to be a multiple of."""
        return int(self._library.hetesynth_device_chunks(self._handle))

    def __call__(self, source: Any, target: Any, count: int, op: str = "sum") -> None:
        """Put a call on the current stream. ``count``: elements as NCCL counts them for this collective
        (hetesynth_device.h). Contiguous tensors; in place as NCCL defines it."""
        self._check(
            self._library.hetesynth_device_run(
                self._handle,
                ctypes.c_void_p(source.data_ptr()),
                ctypes.c_void_p(target.data_ptr()),
                ctypes.c_size_t(count),
                _DTYPES.index(str(source.dtype).removeprefix("torch.")),
                _OPS.index(op),
                ctypes.c_void_p(self._torch.cuda.current_stream().cuda_stream),
            )
        )

    def check(self) -> None:
        """Raise RuntimeError where a call was given up; to be asked after the stream is done."""
        self._check(self._library.hetesynth_device_check(self._handle))

    def close(self) -> None:
        """Free the program, once the stream is done."""
        self._library.hetesynth_device_destroy(self._handle)

    def _check(self, code: int) -> None:
        if code:
            raise RuntimeError(self._library.hetesynth_device_error().decode(errors="replace"))
