// The interpreter of packed programs, for GPUs (device.cu) and for threads of a CPU (threads.cpp): what differs, how a
// message and its signal reach a peer, is the template parameter `Transport`.
//
// A connection is a FIFO of `slots` slots in the receiver's memory. The sender waits until a slot is free, puts a
// message there and then counts it in the slot's `arrived` at the receiver, so messages may settle in any order; the
// receiver copies or adds it out of its own memory and counts it in `credit` at the sender. Nothing reads a peer's
// memory. Counters only grow, call after call, so nothing is reset between calls, and a rank may be a call ahead.
//
// A chunk larger than a slot makes the whole program loop over slices of it; a step whose chunks together are larger
// than a slot takes several messages. Every message is one run of elements.
#pragma once
#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define HS_CORE __host__ __device__ __forceinline__
#define HS_UNROLL _Pragma("unroll")
#define HS_ROLLED _Pragma("unroll 1")  // fewer registers
#else
#define HS_CORE inline
#define HS_UNROLL
#define HS_ROLLED
#endif

namespace hetesynth {

constexpr int32_t MAGIC = 0x54445348, VERSION = 1;  // "HSDT"; pack.py has the same

struct Header {
  int32_t magic, version, words, ranks, rank, blocks, steps, ins, outs, most_ins, most_outs;
  int32_t chunks[3];  // of input, output and scratch
  int32_t block_chunks;  // chunks of what one rank gives to, or takes from, the collective as NCCL counts it
  int32_t root;
};
struct Block { int32_t id, channel, first, steps, in, out; };  // in, out: its connections, -1: none
struct Connection { int32_t peer, index; };  // index: of the same connection among those of the peer
enum Op : int32_t { NOP, SEND, RECEIVE, COPY, REDUCE, RECEIVE_COPY_SEND, RECEIVE_REDUCE_SEND, RECEIVE_REDUCE_COPY,
                    RECEIVE_REDUCE_COPY_SEND };
struct Step { int32_t op, src, src_at, dst, dst_at, count, block, step; };  // op: + 256 where others wait for it

struct Table {
  const Header* header;
  const Block* blocks;
  const Connection *ins, *outs;
  const Step* steps;

  HS_CORE explicit Table(const int32_t* words) : header(reinterpret_cast<const Header*>(words)) {
    blocks = reinterpret_cast<const Block*>(header + 1);
    ins = reinterpret_cast<const Connection*>(blocks + header->blocks);
    outs = ins + header->ins;
    steps = reinterpret_cast<const Step*>(outs + header->outs);
  }
  // Whether words are a table of this version, as long as it says; its contents are pack.py's.
  static bool sound(const void* words, size_t bytes) {
    const Header* header = static_cast<const Header*>(words);
    return bytes >= sizeof(Header) && header->magic == MAGIC && header->version == VERSION &&
           bytes == size_t(header->words) * 4 &&
           bytes == sizeof(Header) + header->blocks * sizeof(Block) + (header->ins + header->outs) * sizeof(Connection) +
                        header->steps * sizeof(Step);
  }
};

// Where counters and slots stand in the symmetric memory of every rank, in bytes.
struct Layout {
  static constexpr size_t LINE = 128;  // of a counter, so that no two share what caches move
  int slots, most_ins, most_outs;
  size_t slot_bytes;  // what a message carries at most, below 2^31

  HS_CORE Layout(const Header& h, int slots, size_t slot_bytes)
      : slots(slots), most_ins(h.most_ins), most_outs(h.most_outs), slot_bytes(slot_bytes) {}
  HS_CORE size_t stride() const { return (slot_bytes + LINE - 1) / LINE * LINE; }
  HS_CORE size_t arrived(int in, int slot) const { return (size_t(in) * slots + slot) * LINE; }
  HS_CORE size_t credit(int out) const { return arrived(most_ins, out); }
  HS_CORE size_t counter_bytes() const { return credit(most_outs + 1); }
  HS_CORE size_t inbox(int in, int slot) const { return (size_t(in) * slots + slot) * stride(); }
  HS_CORE size_t outbox(int out, int slot) const { return inbox(most_ins + out, slot); }  // staged for a network
};

// What a rank keeps from call to call, in memory of its own.
struct State {
  uint64_t *sent, *taken, *progress;  // by connection out, connection in, thread block
  uint64_t calls, left;  // calls done; thread blocks that are through with this one
};

template <typename T>
struct Call {
  T* buffers[3];
  int64_t chunk;  // elements
  int32_t reduction;  // 0: sum, 1: max, 2: min
};

template <typename T>
HS_CORE T combined(T a, T b, int reduction) {
  if (reduction == 0) return a + b;
  return (reduction == 1) == (a < b) ? b : a;
}
template <>
HS_CORE int32_t combined(int32_t a, int32_t b, int reduction) {
  if (reduction == 0) return int32_t(uint32_t(a) + uint32_t(b));  // wraps, as on a GPU
  return (reduction == 1) == (a < b) ? b : a;
}

template <typename T>
struct alignas(16) Line { T v[16 / sizeof(T)]; };

// n elements of a, combined with b where there is one, to x and y where there are; 16 bytes at a time where all allow it.
template <typename T>
HS_CORE void move(const T* a, const T* b, T* x, T* y, int n, int lane, int lanes, int reduction) {
  using L = Line<T>;
  constexpr int WIDE = 16 / sizeof(T), UNROLL = sizeof(T);  // more spills registers, by what it takes to add halves
  int first = 0;
  if (((uintptr_t(a) | uintptr_t(b) | uintptr_t(x) | uintptr_t(y)) & 15) == 0) {
    const L *A = reinterpret_cast<const L*>(a), *B = reinterpret_cast<const L*>(b);
    L *X = reinterpret_cast<L*>(x), *Y = reinterpret_cast<L*>(y);
    const int lines = n / WIDE;
    HS_ROLLED for (int i = lane; i < lines; i += UNROLL * lanes) {
      L values[UNROLL];
      HS_UNROLL for (int u = 0; u < UNROLL; u++)
        if (i + u * lanes < lines) values[u] = A[i + u * lanes];
      if (B) {
        HS_UNROLL for (int u = 0; u < UNROLL; u++)
          if (i + u * lanes < lines) {
            const L other = B[i + u * lanes];
            HS_UNROLL for (int k = 0; k < WIDE; k++) values[u].v[k] = combined(values[u].v[k], other.v[k], reduction);
          }
      }
      HS_UNROLL for (int u = 0; u < UNROLL; u++)
        if (i + u * lanes < lines) {
          if (X) X[i + u * lanes] = values[u];
          if (Y) Y[i + u * lanes] = values[u];
        }
    }
    first = lines * WIDE;
  }
  HS_ROLLED for (int i = first + lane; i < n; i += lanes) {
    const T value = b ? combined(a[i], b[i], reduction) : a[i];
    if (x) x[i] = value;
    if (y) y[i] = value;
  }
}

enum Wait : int32_t { NOTHING, A_MESSAGE, A_SLOT, A_STEP, UNTAKEN };  // what a thread block waits for

// One call of one thread block. `Transport` has: lane(), lanes(); sync() among the lanes; together(b): whether b holds
// for lane 0; reached(counter, least, what, loop, step): waits, false when the call was given up; incoming(in, slot),
// outgoing(out, slot); of lane 0 push(out, slot, bytes, round): the message is the slot's round-th; credit(in, number),
// publish(counter, value), arrived(in, slot), credited(out), leave(): the last thread block counts the call. False:
// given up.
template <typename T, typename Transport>
HS_CORE bool interpret(Transport& t, const Table& table, const Layout& layout, State& state, const Call<T>& call,
                       int block) {
  const Block b = table.blocks[block];
  const int64_t room = layout.slot_bytes / sizeof(T), chunk = call.chunk;
  const int64_t most = chunk < room ? chunk : room;
  const int batch = room > chunk ? int(room / chunk) : 1;
  const uint32_t slots = layout.slots;
  const uint64_t begin = state.calls << 32;
  uint64_t sent = b.out < 0 ? 0 : state.sent[b.out], taken = b.in < 0 ? 0 : state.taken[b.in];
  int32_t loop = 0;
  HS_ROLLED for (int64_t from = 0; from < chunk; from += most, loop++) {
    const int width = int(chunk - from < most ? chunk - from : most);
    HS_ROLLED for (int32_t s = 0; s < b.steps; s++) {
      const Step x = table.steps[b.first + s];
      const int op = x.op & 255;
      const bool receives = op == RECEIVE || op >= RECEIVE_COPY_SEND;
      const bool sends = op == SEND || op == RECEIVE_COPY_SEND || op == RECEIVE_REDUCE_SEND || op == RECEIVE_REDUCE_COPY_SEND;
      const bool reads = op != NOP && op != RECEIVE && op != RECEIVE_COPY_SEND;
      const bool writes = op != NOP && op != SEND && op != RECEIVE_REDUCE_SEND;
      int32_t chunks = 0;
      do {
        bool ready = true;
        if (t.lane() == 0) {
          if (x.block >= 0 && chunks == 0) {
            const uint64_t awaited = begin + uint64_t(loop) * table.blocks[x.block].steps + x.step + 1;
            ready = t.reached(state.progress + x.block, awaited, A_STEP, loop, s);
          }
          if (ready && receives) ready = t.reached(t.arrived(b.in, taken % slots), taken / slots + 1, A_MESSAGE, loop, s);
          if (ready && sends && sent >= slots)
            ready = t.reached(t.credited(b.out), sent + 1 - slots, A_SLOT, loop, s);
        }
        if (!t.together(ready)) return false;
        if (op == NOP) break;
        const int some = x.count - chunks < batch ? x.count - chunks : batch;
        const int length = some * width;  // several chunks are whole ones
        T* src = reads ? call.buffers[x.src] + int64_t(x.src_at + chunks) * chunk + from : nullptr;
        T* dst = writes ? call.buffers[x.dst] + int64_t(x.dst_at + chunks) * chunk + from : nullptr;
        const T* message = receives ? reinterpret_cast<const T*>(t.incoming(b.in, taken % slots)) : nullptr;
        T* onward = sends ? reinterpret_cast<T*>(t.outgoing(b.out, sent % slots)) : nullptr;
        const T* first = message ? message : src;
        const T* second = op == REDUCE ? dst : message ? src : nullptr;
        move<T>(first, second, dst, onward, length, t.lane(), t.lanes(), call.reduction);
        t.sync();
        if (sends) {
          if (t.lane() == 0) t.push(b.out, sent % slots, size_t(length) * sizeof(T), sent / slots + 1);
          sent++;
        }
        if (receives) {
          if (t.lane() == 0) t.credit(b.in, taken + 1);
          taken++;
        }
        chunks += some;
      } while (chunks < x.count);
      if (x.op > 255 && t.lane() == 0) t.publish(state.progress + block, begin + uint64_t(loop) * b.steps + s + 1);
    }
  }
  if (t.lane() == 0) {
    if (b.out >= 0) state.sent[b.out] = sent;
    if (b.in >= 0) state.taken[b.in] = taken;
    t.leave();
  }
  return true;
}

}  // namespace hetesynth
