// Elements become integer keys that order as they do, with the index in the low half: one comparison of 64 bits decides
// everything. A line is filtered against the k-th best so far, which few elements pass; those are kept in a buffer that
// is cut back to the k best when it is full.
#include "backends/cpu/kernels/reduce/top_k.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/kernels/targets.h"
#include "base/divide_up.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/top_k.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#ifndef CAMSHAFT_CPU_TOP_K_CANDIDATES
#define CAMSHAFT_CPU_TOP_K_CANDIDATES
namespace camshaft::cpu {
namespace {

// The best elements so far. An entry is the key (made unsigned) above the complement of the index: larger is better.
struct Candidates {
  uint64_t* list;
  int64_t room, k, count;
  int32_t least;  // keys up to this one cannot be among the k best
  bool full;      // there are k of them

  static uint64_t entry(int32_t key, int64_t index) {
    return static_cast<uint64_t>(static_cast<uint32_t>(key) ^ 0x80000000u) << 32 |
           (0xffffffffu - static_cast<uint64_t>(index));
  }
  static int32_t key_of(uint64_t entry) {
    return static_cast<int32_t>(static_cast<uint32_t>(entry >> 32) ^ 0x80000000u);
  }
  static int64_t index_of(uint64_t entry) { return static_cast<int64_t>(0xffffffffu - (entry & 0xffffffffu)); }

  void add(int32_t key, int64_t index) {
    list[count++] = entry(key, index);
    if (count == room) shrink();
  }
  void shrink() {
    if (count > k) std::nth_element(list, list + k - 1, list + count, std::greater<>());
    count = std::min(count, k);
    full = count == k;
    // Elements to come have higher indices: those equal to the k-th best lose against it.
    if (full) least = key_of(list[k - 1]);
  }
};

}  // namespace
}  // namespace camshaft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Keys in the order of the floats: -0 is 0, NaN above everything; turned round for the smallest.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> keys_of(D d, hn::Vec<D> x, bool largest) {
  const hn::RebindToSigned<D> di;
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(di, hn::Add(x, hn::Zero(d)));
  const auto sign = hn::BitCast(di, hn::ShiftRight<1>(hn::BitCast(du, hn::BroadcastSignBit(bits))));
  auto key = hn::Xor(bits, sign);
  key = hn::IfThenElse(hn::RebindMask(di, hn::IsNaN(x)), hn::Set(di, std::numeric_limits<int32_t>::max()), key);
  return largest ? key : hn::Not(key);
}

// Elements [begin, n) of a line.
void filter(const float* x, int64_t n, bool largest, Candidates& candidates) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN int32_t keys[hn::MaxLanes(d)];
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto key = keys_of(d, hn::LoadU(d, x + i), largest);
    if (candidates.full && hn::AllFalse(di, hn::Gt(key, hn::Set(di, candidates.least)))) continue;
    hn::Store(key, di, keys);
    for (int64_t lane = 0; lane < lanes; ++lane)
      if (!candidates.full || keys[lane] > candidates.least) candidates.add(keys[lane], i + lane);
  }
  for (; i < n; ++i) {
    const int32_t key = hn::GetLane(keys_of(one, hn::Set(one, x[i]), largest));
    if (!candidates.full || key > candidates.least) candidates.add(key, i);
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(filter);

namespace {

constexpr int64_t least_elements = 8 * 1024;

}  // namespace

// Twice as many as are wanted: then each cut, which takes time in proportion, throws half of them away.
int64_t TopK::candidates() const {
  return std::min(axis + 1, 2 * k + 64);
}
// Neighbouring lines are copied together, a cache line of each row.
int64_t TopK::columns() const {
  return inner == 1 ? 0 : std::min<int64_t>(inner, 16);
}
int64_t TopK::thread_bytes() const {
  return round_up(candidates() * 8, 64) + round_up(columns() * axis * 4, 64);
}
int64_t TopK::workspace_bytes(int threads) const {
  return threads * thread_bytes();
}

void TopK::run(ThreadPool& pool, const float* x, float* values, int64_t* indices, void* workspace) const {
  if (outer * axis * inner * k == 0) return;
  const auto kernel = HWY_DYNAMIC_DISPATCH(filter);
  const int64_t block = std::max<int64_t>(1, columns()), blocks = (inner + block - 1) / block;
  const int64_t items = outer * blocks, grain = least_elements / (axis * block) + 1;
  // As parallel_for cuts them, but each thread needs to know which one it is.
  const auto threads = static_cast<int>(std::min<int64_t>(pool.size(), (items + grain - 1) / grain));
  const auto part = [&](int thread) {
    char* own = static_cast<char*>(workspace) + thread * thread_bytes();
    auto* list = reinterpret_cast<uint64_t*>(own);
    auto* lines = reinterpret_cast<float*>(own + round_up(candidates() * 8, 64));
    for (int64_t item = items * thread / threads; item < items * (thread + 1) / threads; ++item) {
      const int64_t o = item / blocks, first = item % blocks * block, n = std::min(block, inner - first);
      const float* from = x + o * axis * inner + first;
      if (inner > 1)
        for (int64_t a = 0; a < axis; ++a)
          for (int64_t c = 0; c < n; ++c) lines[c * axis + a] = from[a * inner + c];
      for (int64_t c = 0; c < n; ++c) {
        const float* line = inner > 1 ? lines + c * axis : from;
        Candidates best{list, candidates(), k, 0, 0, false};
        kernel(line, axis, largest, best);
        best.shrink();
        std::sort(list, list + k, std::greater<>());
        const int64_t to = o * k * inner + first + c;
        for (int64_t i = 0; i < k; ++i) {
          const int64_t index = Candidates::index_of(list[i]);
          if (values) values[to + i * inner] = line[index];
          if (indices) indices[to + i * inner] = index;
        }
      }
    }
  };
  if (threads == 1) return part(0);
  pool.run([&](int thread) {
    if (thread < threads) part(thread);
  });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
