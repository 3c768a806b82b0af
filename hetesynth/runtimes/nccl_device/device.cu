// The interpreter on GPUs. Peers of the LSA team (NVLink, PCIe) are written to by stores, all others by GIN puts from a
// copy in our own window, whose slot is free again when the receiver has credited the message. Compiled for sm_80 to
// sm_100; it was never run. No multimem (NVLS): a program says who adds what, and a switch adds for all at once.
#include "hetesynth_device.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <nccl_device.h>

#include <cuda/atomic>
#include <string>
#include <vector>

#include "interpreter.h"

namespace hetesynth {

constexpr int THREADS = 512;
constexpr int STUCK_WORDS = 5;  // of a call that was given up: 1, thread block, what it waits for, loop, step

using Counter = cuda::atomic_ref<uint64_t, cuda::thread_scope_system>;

struct Device {
  const int32_t* words;
  const int32_t* lsa;  // of each connection, those in first: the peer's rank in the LSA team, -1: not of it
  State* state;
  volatile int32_t* stuck;  // in host memory
  uint64_t timeout;  // ns, 0: none
  ncclWindow_t counters, slots;  // counters are signals of GIN too, for which NCCL wants strict ordering
  ncclDevComm comm;
  Layout layout;
};

// Apart, as they are long and rare: what they keep in registers is not kept while elements are moved.
__device__ __noinline__ void put(const Device& d, int context, int peer, size_t to, size_t from, size_t bytes,
                                 size_t counter) {
  ncclGin gin(d.comm, context);
  gin.put(ncclTeamWorld(d.comm), peer, d.slots, to, d.slots, from, bytes, ncclGin_WeakVASignalInc{d.counters, counter});
}
__device__ __noinline__ void signal(const Device& d, int context, int peer, size_t counter) {
  ncclGin gin(d.comm, context);
  gin.signal(ncclTeamWorld(d.comm), peer, ncclGin_WeakVASignalInc{d.counters, counter});
}

struct Gpu {
  const Device& d;
  const Table& table;

  __device__ int lane() const { return threadIdx.x; }
  __device__ int lanes() const { return blockDim.x; }
  __device__ void sync() { __syncthreads(); }
  __device__ bool together(bool ready) { return __syncthreads_and(ready); }
  __device__ static uint64_t now() {
    uint64_t ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
  }
  // What GIN signals is read as ncclGin::readSignal reads it: an acquire at system scope.
  __device__ bool reached(uint64_t* counter, uint64_t least, Wait what, int32_t loop, int32_t step) {
    uint64_t since = 0;
    uint32_t polls = 0;
    while (Counter(*counter).load(cuda::memory_order_acquire) < least) {
      if (++polls % 1024) continue;
      if (!since) since = now();
      if (d.stuck[0] || (d.comm.abortFlag && *(volatile uint32_t*)d.comm.abortFlag)) return false;
      if (d.timeout && now() - since > d.timeout) {
        d.stuck[1] = blockIdx.x, d.stuck[2] = what, d.stuck[3] = loop, d.stuck[4] = step;
        __threadfence_system();
        d.stuck[0] = 1;
        return false;
      }
    }
    return true;
  }
  __device__ static void publish(void* counter, uint64_t value) {
    Counter(*static_cast<uint64_t*>(counter)).store(value, cuda::memory_order_release);
  }
  __device__ uint64_t* arrived(int in, int slot) {
    return (uint64_t*)ncclGetLocalPointer(d.counters, d.layout.arrived(in, slot));
  }
  __device__ uint64_t* credited(int out) { return (uint64_t*)ncclGetLocalPointer(d.counters, d.layout.credit(out)); }
  __device__ void* incoming(int in, int slot) { return ncclGetLocalPointer(d.slots, d.layout.inbox(in, slot)); }
  __device__ int lsa_in(int in) const { return d.lsa[in]; }
  __device__ int lsa_out(int out) const { return d.lsa[table.header->ins + out]; }
  __device__ void* outgoing(int out, int slot) {
    const int peer = lsa_out(out);
    if (peer < 0) return ncclGetLocalPointer(d.slots, d.layout.outbox(out, slot));
    return ncclGetLsaPointer(d.slots, d.layout.inbox(table.outs[out].index, slot), peer);
  }
  __device__ void push(int out, int slot, size_t bytes, uint64_t round) {
    const Connection c = table.outs[out];
    const size_t counter = d.layout.arrived(c.index, slot);
    if (lsa_out(out) >= 0) publish(ncclGetLsaPointer(d.counters, counter, lsa_out(out)), round);
    else put(d, context(), c.peer, d.layout.inbox(c.index, slot), d.layout.outbox(out, slot), bytes, counter);
  }
  __device__ void credit(int in, uint64_t number) {
    const Connection c = table.ins[in];
    const size_t counter = d.layout.credit(c.index);
    if (lsa_in(in) >= 0) publish(ncclGetLsaPointer(d.counters, counter, lsa_in(in)), number);
    else signal(d, context(), c.peer, counter);
  }
  __device__ int context() const {  // channels take turns over them, and so over NICs
    return table.blocks[blockIdx.x].channel % d.comm.ginContextCount;
  }
  __device__ void leave() {
    cuda::atomic_ref<uint64_t, cuda::thread_scope_device> left(d.state->left);
    if (left.fetch_add(1, cuda::memory_order_acq_rel) + 1 == gridDim.x) {
      d.state->left = 0;
      d.state->calls++;
    }
  }
};

template <typename T>
__global__ void __launch_bounds__(THREADS, 1) play(const __grid_constant__ Device d, const __grid_constant__ Call<T> call) {
  const Table table(d.words);
  Gpu transport{d, table};
  interpret<T>(transport, table, d.layout, *d.state, call, blockIdx.x);
}

}  // namespace hetesynth

using namespace hetesynth;

struct hetesynth_device {
  ncclComm_t comm = nullptr;
  std::vector<int32_t> words;
  size_t most = 0;  // bytes of a block of the collective
  void *memory = nullptr, *scratch = nullptr, *counters = nullptr, *slots = nullptr;
  int32_t* stuck = nullptr;
  bool connected = false;
  Device d{nullptr, nullptr, nullptr, nullptr, 0, nullptr, nullptr, {}, Layout(Header{}, 0, 0)};
  const Header& header() const { return *reinterpret_cast<const Header*>(words.data()); }
};

namespace {

thread_local std::string said;

int failed(const std::string& text) {
  said = text;
  return 1;
}
int failed(const char* call, cudaError_t error) { return failed(std::string(call) + ": " + cudaGetErrorString(error)); }
int failed(const char* call, ncclResult_t error) {
  return failed(std::string(call) + ": " + ncclGetErrorString(error) + ": " + ncclGetLastError(nullptr));
}
#define TRY(call) \
  if (auto error = call; int(error) != 0) return failed(#call, error)

int connected(hetesynth_device& h, int slots, size_t slot_bytes, double timeout) {
  const Header& header = h.header();
  ncclCommProperties_t has = NCCL_COMM_PROPERTIES_INITIALIZER;
  TRY(ncclCommQueryProperties(h.comm, &has));
  if (has.nRanks != header.ranks || has.rank != header.rank)
    return failed("the table is for rank " + std::to_string(header.rank) + " of " + std::to_string(header.ranks) +
                  ", the communicator has rank " + std::to_string(has.rank) + " of " + std::to_string(has.nRanks));
  const bool far = has.nLsaTeams > 1;
  if (!has.deviceApiSupport || (far && has.ginType == NCCL_GIN_TYPE_NONE))
    return failed(far ? "NCCL has no GIN here, which ranks without NVLink or PCIe peer access need"
                      : "NCCL has no device API here");
  ncclDevCommRequirements_t needs = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
  needs.ginConnectionType = far ? NCCL_GIN_CONNECTION_FULL : NCCL_GIN_CONNECTION_NONE;
  needs.ginStrongSignalsRequired = false;
  needs.ginVaSignalsRequired = far;
  TRY(ncclDevCommCreate(h.comm, &needs, &h.d.comm));
  h.connected = true;

  h.d.layout = Layout(header, slots, slot_bytes);
  const size_t counter_bytes = h.d.layout.counter_bytes(), all = h.d.layout.outbox(far ? header.most_outs : 0, 0) + 1;
  TRY(ncclMemAlloc(&h.counters, counter_bytes));
  TRY(ncclMemAlloc(&h.slots, all));
  TRY(cudaMemset(h.counters, 0, counter_bytes));  // registering is collective: nobody writes before all have done this
  TRY(cudaDeviceSynchronize());
  TRY(ncclCommWindowRegister(h.comm, h.slots, all, &h.d.slots, NCCL_WIN_COLL_SYMMETRIC));
  TRY(ncclCommWindowRegister(h.comm, h.counters, counter_bytes, &h.d.counters,
                             NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING));

  const Table table(h.words.data());
  const ncclTeam_t world = ncclTeamWorld(h.comm), lsa = ncclTeamLsa(h.comm);
  std::vector<int32_t> places;
  for (int k = 0; k < header.ins + header.outs; k++) {
    const int peer = table.ins[k].peer;  // those out follow those in
    places.push_back(ncclTeamRankIsMember(lsa, world, peer) ? ncclTeamRankToTeam(lsa, world, peer) : -1);
  }
  const size_t counts = header.outs + header.ins + header.blocks, state = sizeof(State) + counts * sizeof(uint64_t);
  const size_t words = h.words.size() * 4, total = state + words + places.size() * 4;
  TRY(cudaMalloc(&h.memory, total));
  std::vector<char> image(total);
  auto* first = reinterpret_cast<uint64_t*>(static_cast<char*>(h.memory) + sizeof(State));
  *reinterpret_cast<State*>(image.data()) = {first, first + header.outs, first + header.outs + header.ins, 0, 0};
  std::copy(h.words.begin(), h.words.end(), reinterpret_cast<int32_t*>(image.data() + state));
  std::copy(places.begin(), places.end(), reinterpret_cast<int32_t*>(image.data() + state + words));
  TRY(cudaMemcpy(h.memory, image.data(), total, cudaMemcpyHostToDevice));
  h.d.state = static_cast<State*>(h.memory);
  h.d.words = reinterpret_cast<const int32_t*>(static_cast<char*>(h.memory) + state);
  h.d.lsa = h.d.words + h.words.size();
  const size_t chunk = (h.most / header.block_chunks + 15) / 16 * 16;
  if (header.chunks[2]) TRY(cudaMalloc(&h.scratch, header.chunks[2] * chunk));
  TRY(cudaHostAlloc(&h.stuck, STUCK_WORDS * 4, cudaHostAllocMapped));
  std::fill(h.stuck, h.stuck + STUCK_WORDS, 0);
  void* mapped = nullptr;
  TRY(cudaHostGetDevicePointer(&mapped, h.stuck, 0));
  h.d.stuck = static_cast<int32_t*>(mapped);
  h.d.timeout = uint64_t(timeout * 1e9);
  return 0;
}

template <typename T>
cudaError_t launched(hetesynth_device& h, const void* in, void* out, size_t count, int op, cudaStream_t stream) {
  T* input = static_cast<T*>(const_cast<void*>(in));
  Call<T> call{{input, static_cast<T*>(out), static_cast<T*>(h.scratch)}, int64_t(count / h.header().block_chunks), op};
  void* arguments[] = {&h.d, &call};
  return cudaLaunchCooperativeKernel(reinterpret_cast<void*>(play<T>), h.header().blocks, THREADS, arguments, 0, stream);
}

}  // namespace

int hetesynth_device_create(const void* table, size_t bytes, ncclComm_t comm, int slots, size_t slot_bytes,
                            size_t max_block_bytes, double timeout, hetesynth_device** handle) {
  if (!Table::sound(table, bytes)) return failed("this is no table of this version");
  if (slots < 1 || !slot_bytes || slot_bytes % 16 || slot_bytes >> 31)
    return failed("slots are none, or slot_bytes no multiple of 16 below 2 GiB");
  auto* h = new hetesynth_device;
  const int32_t* first = static_cast<const int32_t*>(table);
  h->comm = comm, h->most = max_block_bytes, h->words.assign(first, first + bytes / 4);
  if (connected(*h, slots, slot_bytes, timeout)) {
    const std::string why = said;
    hetesynth_device_destroy(h);
    return failed(why);
  }
  *handle = h;
  return 0;
}

int hetesynth_device_run(hetesynth_device* h, const void* in, void* out, size_t count, int dtype, int op,
                         cudaStream_t stream) {
  static const size_t widths[] = {2, 2, 4, 4};
  if (dtype < 0 || dtype > HETESYNTH_INT32 || op < 0 || op > HETESYNTH_MIN) return failed("no such dtype or op");
  if (count % h->header().block_chunks)
    return failed(std::to_string(count) + " elements do not divide by " + std::to_string(h->header().block_chunks));
  if (count * widths[dtype] > h->most) return failed("more bytes than max_block_bytes");
  if (hetesynth_device_check(h)) return 1;
  if (!count || !h->header().blocks) return 0;
  auto launch = dtype == HETESYNTH_FLOAT16 ? launched<__half> : dtype == HETESYNTH_BFLOAT16 ? launched<__nv_bfloat16>
              : dtype == HETESYNTH_FLOAT32 ? launched<float> : launched<int32_t>;
  TRY(launch(*h, in, out, count, op, stream));
  return 0;
}

int hetesynth_device_chunks(const hetesynth_device* h) { return h->header().block_chunks; }

int hetesynth_device_check(hetesynth_device* h) {
  const volatile int32_t* stuck = h->stuck;
  if (!stuck[0]) return 0;
  static const char* const names[] = {"nothing", "a message", "a free slot at its peer", "a step of another thread block"};
  return failed("rank " + std::to_string(h->header().rank) + " thread block " +
                std::to_string(Table(h->words.data()).blocks[stuck[1]].id) + " step " + std::to_string(stuck[4]) +
                " loop " + std::to_string(stuck[3]) + " waited for " + names[stuck[2] & 3] + " until the timeout");
}

int hetesynth_device_destroy(hetesynth_device* h) {
  if (h->d.counters) ncclCommWindowDeregister(h->comm, h->d.counters);
  if (h->d.slots) ncclCommWindowDeregister(h->comm, h->d.slots);
  if (h->connected) ncclDevCommDestroy(h->comm, &h->d.comm);
  if (h->counters) ncclMemFree(h->counters);
  if (h->slots) ncclMemFree(h->slots);
  cudaFree(h->memory), cudaFree(h->scratch), cudaFreeHost(h->stuck);
  delete h;
  return 0;
}

const char* hetesynth_device_error(void) { return said.c_str(); }
