#include "backends/cpu/kernels/conv/int8_depthwise.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/kernels/targets.h"
#include "base/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv/int8_depthwise.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "backends/cpu/kernels/gemm/int8_finish-inl.h"

#ifndef CAMSHAFT_CPU_INT8_DEPTHWISE
#define CAMSHAFT_CPU_INT8_DEPTHWISE
namespace camshaft::cpu {
namespace {

constexpr int64_t kBlockRows = 32;      // pixels whose pointers are found at once
constexpr int64_t kBlockColumns = 256;  // channels whose sums lie in L1

}  // namespace
}  // namespace camshaft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<int32_t>;
using Vec = hn::Vec<Tag>;

// Two taps of a channel in the halves of each lane.
template <class T>
HWY_INLINE Vec pair_up(Vec first, Vec second) {
  if constexpr (std::is_signed_v<T>) first = hn::And(first, hn::Set(Tag(), 0xFFFF));
  return hn::Or(first, hn::ShiftLeft<16>(second));
}

HWY_INLINE Vec add_pairs(Vec sum, Vec x, const int16_t* weights) {
#if CAMSHAFT_HAS_BYTE_PRODUCT
  const hn::Repartition<int16_t, Tag> d16;
  return add_word_pairs(sum, hn::BitCast(d16, x), hn::LoadU(d16, weights));
#else
  const Tag d;
  const Vec w = hn::LoadU(d, reinterpret_cast<const int32_t*>(weights));
  const auto low = [](Vec v) { return hn::ShiftRight<16>(hn::ShiftLeft<16>(v)); };
  const auto high = [](Vec v) { return hn::ShiftRight<16>(v); };
  return hn::Add(sum, hn::Add(hn::Mul(low(x), low(w)), hn::Mul(high(x), high(w))));
#endif
}

// NV vectors of channels of one pixel, from `channel` on. `load(from)` gives a vector of them.
template <class T, int NV, class Load>
HWY_INLINE void channel_sums(const Int8DepthwiseProblem& p, const uint8_t* const* pointers, int64_t channel,
                             Load&& load, int32_t* sums) {
  const Tag d;
  constexpr int64_t lanes = HWY_LANES(int32_t);
  const int64_t taps = p.weights.taps, stride = p.weights.padded() * 2;
  const int16_t* weights = p.pairs + channel * 2;
  Vec sum[NV];
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) sum[v] = hn::LoadU(d, p.begin + channel + v * lanes);
  for (int64_t t = 0; t < taps; t += 2, weights += stride) {
    const bool both = t + 1 < taps;
    const auto* first = reinterpret_cast<const T*>(pointers[t * kBlockRows]) + channel;
    const auto* second = both ? reinterpret_cast<const T*>(pointers[(t + 1) * kBlockRows]) + channel : first;
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      // The weight of a tap that is none is multiplied with 0.
      const Vec more = both ? load(second + v * lanes) : hn::Zero(d);
      sum[v] = add_pairs(sum[v], pair_up<T>(load(first + v * lanes), more), weights + v * lanes * 2);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) hn::StoreU(sum[v], d, sums + v * lanes);
}

template <class T>
void pixel_sums(const Int8DepthwiseProblem& p, const uint8_t* const* pointers, int64_t first, int64_t columns,
                int32_t* sums) {
  const Tag d;
  const hn::Rebind<T, Tag> d8;
  constexpr int64_t lanes = HWY_LANES(int32_t);
  const auto load = [&](const T* from) HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(d8, from)); };
  int64_t i = 0;
  for (; i + 4 * lanes <= columns; i += 4 * lanes) channel_sums<T, 4>(p, pointers, first + i, load, sums + i);
  for (; i + lanes <= columns; i += lanes) channel_sums<T, 1>(p, pointers, first + i, load, sums + i);
  if (i >= columns) return;
  const auto load_last = [&](const T* from) HWY_ATTR {
    HWY_ALIGN T last[HWY_LANES(int32_t)] = {};
    std::memcpy(last, from, static_cast<size_t>(columns - i));
    return hn::PromoteTo(d, hn::LoadU(d8, last));
  };
  channel_sums<T, 1>(p, pointers, first + i, load_last, sums + i);
}

void int8_depthwise_rows(const Int8DepthwiseProblem& p, int64_t begin, int64_t end, const uint8_t** pointers) {
  const Int8Problem& result = p.result;
  HWY_ALIGN int32_t sums[kBlockColumns];
  for (int64_t row0 = begin; row0 < end; row0 += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, end - row0);
    p.plan->find_rows(p.x, p.padding, row0, rows, pointers, kBlockRows);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t first = 0; first < p.weights.channels; first += kBlockColumns) {
        const int64_t columns = std::min(kBlockColumns, p.weights.channels - first);
        p.is_signed ? pixel_sums<int8_t>(p, pointers + r, first, columns, sums)
                    : pixel_sums<uint8_t>(p, pointers + r, first, columns, sums);
        int8::finish_row(result, {sums, row0 + r, first, columns});
        int8::activate_rows(result, row0 + r, 1, first, columns);
        if (result.gives_blocks()) result.finish(result.finish_context, sums, columns, row0 + r, 1, first, columns);
      }
    }
    const Epilogue& e = result.epilogue;
    if (result.result == Int8Result::scaled && e.callback) e.callback(e.context, row0, rows, 0, p.weights.channels);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(int8_depthwise_rows);

namespace {

// Calls visit(place among the pairs, element in the model, channel).
template <class Visit>
void for_weights(const Int8DepthwiseWeights& w, Visit&& visit) {
  for (int64_t c = 0; c < w.channels; ++c)
    for (int64_t t = 0; t < w.taps; ++t) visit((t / 2 * w.padded() + c) * 2 + t % 2, c * w.taps + t, c);
}

int64_t pointer_bytes(const Int8DepthwiseWeights& w) {
  return (w.taps * kBlockRows * 8 + 63) / 64 * 64;
}

}  // namespace

void pack_int8_depthwise(const Int8DepthwiseWeights& w, const uint8_t* from, bool is_signed, std::byte* packed) {
  std::memset(packed, 0, static_cast<size_t>(w.bytes()));
  auto* pairs = reinterpret_cast<int16_t*>(packed);
  auto* sums = reinterpret_cast<int32_t*>(packed) + w.pair_words();
  for_weights(w, [&](int64_t to, int64_t at, int64_t channel) {
    pairs[to] = is_signed ? static_cast<int8_t>(from[at]) : from[at];
    sums[channel] += pairs[to];
  });
}

void unpack_int8_depthwise(const Int8DepthwiseWeights& w, const std::byte* packed, uint8_t* to) {
  const auto* pairs = reinterpret_cast<const int16_t*>(packed);
  for_weights(w, [&](int64_t from, int64_t at, int64_t) { to[at] = static_cast<uint8_t>(pairs[from]); });
}

int64_t int8_depthwise_workspace_bytes(const Int8DepthwiseWeights& weights, int threads) {
  return pointer_bytes(weights) * threads;
}

void int8_depthwise(const Int8DepthwiseProblem& problem, ThreadPool& pool, void* workspace) {
  const int64_t rows = problem.plan->rows(), threads = pool.size();
  pool.run([&](int thread) {
    auto* pointers = static_cast<char*>(workspace) + thread * pointer_bytes(problem.weights);
    const int64_t begin = rows * thread / threads, end = rows * (thread + 1) / threads;
    HWY_DYNAMIC_DISPATCH(int8_depthwise_rows)(problem, begin, end, reinterpret_cast<const uint8_t**>(pointers));
  });
}

}  // namespace camshaft::cpu
#endif
