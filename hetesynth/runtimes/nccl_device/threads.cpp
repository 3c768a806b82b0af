// The interpreter on threads of a CPU: one for each thread block of every rank, all in one process, with atomics in
// place of NCCL's device API. What happens at once on GPUs happens at once here.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "interpreter.h"

#ifndef __FLT16_MANT_DIG__
#error "this compiler has no _Float16: g++ 12 or clang 15 on x86-64, g++ 7 on arm64"
#endif

namespace hetesynth {

struct Bfloat16 {  // to the nearest, ties to even, as GPUs round
  uint16_t bits;
  operator float() const {
    const uint32_t wide = uint32_t(bits) << 16;
    float value;
    __builtin_memcpy(&value, &wide, 4);
    return value;
  }
};
template <>
inline Bfloat16 combined(Bfloat16 a, Bfloat16 b, int reduction) {
  const float value = combined<float>(a, b, reduction);
  uint32_t wide;
  __builtin_memcpy(&wide, &value, 4);
  if (value != value) return {uint16_t(wide >> 16 | 64)};
  return {uint16_t((wide + 0x7fff + (wide >> 16 & 1)) >> 16)};
}

struct Rank {
  std::vector<int32_t> words;
  Table table;
  std::vector<uint64_t> sent, taken, progress;
  std::unique_ptr<char, decltype(&std::free)> counters, slots;
  State state;

  Rank(const int32_t* given, const Layout& layout)
      : words(given, given + reinterpret_cast<const Header*>(given)->words), table(words.data()),
        sent(table.header->outs), taken(table.header->ins), progress(table.header->blocks),
        counters(aligned(layout.counter_bytes())), slots(aligned(layout.outbox(table.header->most_outs, 0))),
        state{sent.data(), taken.data(), progress.data(), 0, 0} {
    __builtin_memset(counters.get(), 0, layout.counter_bytes());
  }
  static std::unique_ptr<char, decltype(&std::free)> aligned(size_t bytes) {
    void* memory = std::aligned_alloc(Layout::LINE, bytes / Layout::LINE * Layout::LINE + Layout::LINE);
    if (!memory) throw std::bad_alloc();
    return {static_cast<char*>(memory), &std::free};
  }
};

// In place of a network: what is given to it settles later, in any order, and is then counted.
struct Network {
  struct Put { void* to; const void* from; size_t bytes; uint64_t* counter; };
  std::mutex mutex;
  std::vector<Put> under_way;
  std::atomic<bool> closing{false};

  void give(const Put& put) {
    std::lock_guard<std::mutex> hold(mutex);
    under_way.push_back(put);
  }
  void run() {
    for (uint64_t random = 1;; random = random * 6364136223846793005u + 1442695040888963407u) {
      const bool last = closing.load(std::memory_order_acquire);
      Put put{};
      {
        std::lock_guard<std::mutex> hold(mutex);
        if (!under_way.empty()) {
          std::swap(under_way[(random >> 33) % under_way.size()], under_way.back());
          put = under_way.back();
          under_way.pop_back();
        }
      }
      if (put.counter) {
        if (put.bytes) __builtin_memcpy(put.to, put.from, put.bytes);
        __atomic_fetch_add(put.counter, 1, __ATOMIC_RELEASE);
      } else if (last) {
        return;
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
  }
};

struct World {
  Layout layout;
  int server;  // ranks of one that reach each other by stores; 0: all
  std::vector<std::unique_ptr<Rank>> ranks;
  Network network;
  int blocks = 0;
  std::atomic<uint64_t> moves{0};  // progress of any thread block
  std::atomic<int> ended{0};
  std::atomic<bool> stop{false};
};

struct Threads {
  World& world;
  Rank& rank;
  int32_t* wait;  // (what, loop, step)

  static uint64_t* at(Rank& rank, size_t offset) { return reinterpret_cast<uint64_t*>(rank.counters.get() + offset); }
  Rank& peer(const Connection& c) { return *world.ranks[c.peer]; }
  int lane() const { return 0; }
  int lanes() const { return 1; }
  void sync() {}
  bool together(bool ready) { return ready; }
  bool reached(const uint64_t* counter, uint64_t least, Wait what, int32_t loop, int32_t step) {
    for (int tries = 0; __atomic_load_n(counter, __ATOMIC_ACQUIRE) < least; tries++) {
      if (world.stop.load(std::memory_order_relaxed)) {
        wait[0] = what, wait[1] = loop, wait[2] = step;
        return false;
      }
      if (tries < 8) std::this_thread::yield();
      else std::this_thread::sleep_for(std::chrono::microseconds(50 + world.blocks));  // to let the others run
    }
    world.moves.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  void publish(uint64_t* counter, uint64_t value) { __atomic_store_n(counter, value, __ATOMIC_RELEASE); }
  uint64_t* arrived(int in, int slot) { return at(rank, world.layout.arrived(in, slot)); }
  uint64_t* credited(int out) { return at(rank, world.layout.credit(out)); }
  bool near(const Connection& c) const {
    return !world.server || c.peer / world.server == rank.table.header->rank / world.server;
  }
  char* incoming(int in, int slot) { return rank.slots.get() + world.layout.inbox(in, slot); }
  char* outgoing(int out, int slot) {
    const Connection& c = rank.table.outs[out];
    return near(c) ? peer(c).slots.get() + world.layout.inbox(c.index, slot)
                   : rank.slots.get() + world.layout.outbox(out, slot);
  }
  void push(int out, int slot, size_t bytes, uint64_t round) {
    const Connection& c = rank.table.outs[out];
    uint64_t* counter = at(peer(c), world.layout.arrived(c.index, slot));
    if (near(c)) publish(counter, round);
    else world.network.give({peer(c).slots.get() + world.layout.inbox(c.index, slot), outgoing(out, slot), bytes, counter});
  }
  void credit(int in, uint64_t number) {
    const Connection& c = rank.table.ins[in];
    uint64_t* counter = at(peer(c), world.layout.credit(c.index));
    if (near(c)) publish(counter, number);
    else world.network.give({nullptr, nullptr, 0, counter});
  }
  void leave() {}  // the caller counts the call, once all threads are joined
};

template <typename T>
void play(World& world, void* const* buffers, int64_t chunk, int reduction, int rank, int block, int32_t* wait) {
  Rank& own = *world.ranks[rank];
  Threads transport{world, own, wait};
  Call<T> call{{}, chunk, reduction};
  for (int k = 0; k < 3; k++) call.buffers[k] = static_cast<T*>(buffers[3 * rank + k]);
  interpret<T>(transport, own.table, world.layout, own.state, call, block);
  world.moves.fetch_add(1, std::memory_order_relaxed);
  world.ended.fetch_add(1, std::memory_order_release);
}

}  // namespace hetesynth

using namespace hetesynth;

// `tables`: of each rank, as pack.py makes them. `server`: ranks of a server, between which the network carries; 0: one
// server. Null where memory does not suffice.
extern "C" void* hetesynth_threads_create(const int32_t* const* tables, int ranks, int slots, int64_t slot_bytes,
                                          int server) try {
  const Header& any = *reinterpret_cast<const Header*>(tables[0]);
  std::unique_ptr<World> world(new World{Layout(any, slots, slot_bytes), server, {}, {}});
  for (int r = 0; r < ranks; r++) {
    world->ranks.push_back(std::make_unique<Rank>(tables[r], world->layout));
    world->blocks += world->ranks.back()->table.header->blocks;
  }
  return world.release();
} catch (const std::bad_alloc&) {
  return nullptr;
}

extern "C" void hetesynth_threads_destroy(void* world) { delete static_cast<World*>(world); }

// One call on all ranks. `buffers`: input, output, scratch of each rank; `chunk`: elements; `dtype`: 0 float16,
// 1 bfloat16, 2 float32, 3 int32. Given up after `timeout` seconds in which no thread block did anything. `waits`, of
// each thread block of each rank in order: what it waits for (enum Wait), loop and step; of a sender whose peer took
// too little, UNTAKEN and how many. 0: done, 1: not, and the handle is of no further use, 2: no more threads are to be had.
extern "C" int hetesynth_threads_run(void* handle, void* const* buffers, int64_t chunk, int dtype, int reduction,
                                     double timeout, int32_t* waits) {
  World& world = *static_cast<World*>(handle);
  auto run = dtype == 0 ? play<_Float16> : dtype == 1 ? play<Bfloat16> : dtype == 2 ? play<float> : play<int32_t>;
  std::vector<std::thread> threads;
  bool refused = false;
  int started = 0;
  int32_t* wait = waits;
  world.ended = 0;
  world.network.closing = false;
  std::thread network;
  try {
    if (world.server) network = std::thread(&Network::run, &world.network);
    for (size_t r = 0; r < world.ranks.size(); r++)
      for (int b = 0; b < world.ranks[r]->table.header->blocks; b++, wait += 3) {
        threads.emplace_back(run, std::ref(world), buffers, chunk, reduction, int(r), b, wait);
        started++;
      }
  } catch (const std::system_error&) {
    refused = true;
    world.stop = true;
  }
  using Clock = std::chrono::steady_clock;
  auto since = Clock::now();
  for (uint64_t seen = 0; world.ended.load(std::memory_order_acquire) < started;) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    const uint64_t moves = world.moves.load(std::memory_order_relaxed);
    if (moves != seen) seen = moves, since = Clock::now();
    else if (std::chrono::duration<double>(Clock::now() - since).count() > timeout) world.stop = true;
  }
  for (std::thread& thread : threads) thread.join();
  world.network.closing = true;
  if (network.joinable()) network.join();
  if (refused) return 2;
  for (auto& rank : world.ranks) rank->state.calls++;
  if (world.stop) return 1;
  bool done = true;
  wait = waits;
  for (auto& rank : world.ranks)
    for (int b = 0; b < rank->table.header->blocks; b++, wait += 3) {
      const int out = rank->table.blocks[b].out;
      if (out < 0) continue;
      const Connection& c = rank->table.outs[out];
      const uint64_t left = rank->sent[out] - world.ranks[c.peer]->taken[c.index];
      if (left) wait[0] = UNTAKEN, wait[1] = int32_t(left), done = false;
    }
  return done ? 0 : 1;
}
