/* Programs of hetesynth as one CUDA kernel on NCCL's device API (NCCL 2.30 and later). All calls return 0, or another
 * number where they did not work; hetesynth_device_error() says why. One thread at a time for one handle.
 *
 *     hetesynth_device* handle;
 *     hetesynth_device_create(table, bytes, comm, 8, 512 << 10, 64 << 20, 30.0, &handle);   on every rank
 *     hetesynth_device_run(handle, in, out, count, HETESYNTH_FLOAT16, HETESYNTH_SUM, stream);
 *     hetesynth_device_destroy(handle);   once the stream is done, on every rank
 */
#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hetesynth_device hetesynth_device;
enum { HETESYNTH_FLOAT16, HETESYNTH_BFLOAT16, HETESYNTH_FLOAT32, HETESYNTH_INT32 };
enum { HETESYNTH_SUM, HETESYNTH_MAX, HETESYNTH_MIN };

/* Collective over `comm`, with the tables of one program: RANK.table as `python -m hetesynth.runtimes.nccl_device` writes
 * them. `slots`, `slot_bytes` (a multiple of 16): of the FIFO of a connection, the same on every rank.
 * `max_block_bytes`: the largest count * element that run is given. `timeout`: seconds after which a thread block that
 * waits gives the call up, 0: never. */
int hetesynth_device_create(const void* table, size_t bytes, ncclComm_t comm, int slots, size_t slot_bytes,
                            size_t max_block_bytes, double timeout, hetesynth_device** handle);

/* Puts one call on `stream`; may be captured in a graph. `count` as NCCL counts this collective: of what a rank gives
 * (allreduce, reduce, broadcast, allgather, gather, alltoall: to each peer) or takes (reducescatter, scatter). It has to
 * be a multiple of hetesynth_device_chunks. `in` and `out` may be any device memory; in place as NCCL defines it, with
 * a program that is for that. Calls on one handle go one after the other: on one stream, or ordered by events. */
int hetesynth_device_run(hetesynth_device* handle, const void* in, void* out, size_t count, int dtype, int op,
                         cudaStream_t stream);
int hetesynth_device_chunks(const hetesynth_device* handle);

/* Once the stream is done: whether a call was given up. After that the handle can only be destroyed. */
int hetesynth_device_check(hetesynth_device* handle);

/* Collective. */
int hetesynth_device_destroy(hetesynth_device* handle);

/* Of the last failure in this thread. */
const char* hetesynth_device_error(void);

#ifdef __cplusplus
}
#endif
