// Elements become integer keys that order as they do, with the index in the low half: one comparison of 64 bits decides
// everything. A line is filtered against the k-th best so far, which few elements pass; those are kept in a buffer that
// is cut back to the k best when it is full. Where they are much of a line all are sorted instead: of 8 or 16 bits by
// counts (narrow_top_k.h, rank_top_k.h), of more by digits (radix_top_k.h). A few of lines side by side are found in
// all of them at once (top_k_columns.h), as are those of short lines (few_top_k.h).
#include "backends/cpu/kernels/reduce/top_k.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/move/transpose_tile.h"
#include "backends/cpu/kernels/reduce/few_top_k.h"
#include "backends/cpu/kernels/reduce/narrow_top_k.h"
#include "backends/cpu/kernels/reduce/radix_top_k.h"
#include "backends/cpu/kernels/reduce/rank_top_k.h"
#include "backends/cpu/kernels/reduce/top_k_candidates.h"
#include "backends/cpu/kernels/reduce/top_k_columns.h"
#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/with_type.h"
#include "base/divide_up.h"
#include "base/pieces.h"
#include "base/work_scope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/top_k.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/reduce/top_k_keys-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Of a line `x`, the elements from `begin` up to `end`.
template <class T>
void filter(const T* x, int64_t begin, int64_t end, bool largest, CandidatesOf<T>& candidates) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  using Key = hn::TFromD<decltype(di)>;
  const hn::CappedTag<T, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN Key keys[hn::MaxLanes(d)];
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    const auto key = keys_of(d, hn::LoadU(d, x + i), largest);
    uint64_t better = ~uint64_t{0} >> (64 - lanes);
    if (candidates.full) {
      better = lanes_above(di, key, hn::Set(di, static_cast<Key>(candidates.least)));
      if (better == 0) continue;
    }
    hn::Store(key, di, keys);
    for (; better != 0; better &= better - 1) {
      const int lane = std::countr_zero(better);
      if (!candidates.full || keys[lane] > candidates.least) candidates.add(keys[lane], i + lane);
    }
  }
  for (; i < end; ++i) {
    const auto key = hn::GetLane(keys_of(one, hn::Set(one, x[i]), largest));
    if (!candidates.full || key > candidates.least) candidates.add(key, i);
  }
}

#define CAMSHAFT_FILTER(name, T)                                                                          \
  void filter_##name(const T* x, int64_t begin, int64_t end, bool largest, CandidatesOf<T>& candidates) { \
    filter(x, begin, end, largest, candidates);                                                           \
  }
CAMSHAFT_ELEMENT_TYPES(CAMSHAFT_FILTER)
#undef CAMSHAFT_FILTER

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

namespace {

constexpr int64_t least_elements = 8 * 1024;

// Of lines, few of few. Those that do not lie side by side become columns of a block first. 7692 lines of 13 took 837
// us for 2 of each on a Zen 3 one by one, and take 67. Of 8 and 16 bits they are widened into a block: of bytes these
// took 630 us on a Xeon.
constexpr int64_t most_short_lines = 256, short_block_bytes = 16 * 1024;  // at once

template <class T>
void top_k_of_short_lines(const TopK& top, ThreadPool& pool, const T* x, T* values, int64_t* indices) {
  constexpr bool widens = sizeof(T) < 4;
  using Wide = std::conditional_t<widens, int32_t, T>;
  constexpr auto width = static_cast<int64_t>(sizeof(Wide));
  const bool turns = top.inner == 1;
  const int64_t lines = turns ? top.outer : top.inner;
  const int64_t fitting = turns || widens ? short_block_bytes / (width * top.axis) : most_short_lines;
  const int64_t block = std::min({lines, most_short_lines, fitting}), blocks = divide_up(lines, block);
  // Elements from a line to the next, in x and in the results.
  const int64_t line_step = turns ? top.axis : 1, result_step = turns ? top.k : 1;
  const auto run = [&](int64_t begin, int64_t end) {
    alignas(64) Wide turned[short_block_bytes / width], widened[widens ? short_block_bytes / width : 1];
    int64_t best[most_short_lines * most_few_best];
    for (int64_t item = begin; item < end; ++item) {
      const int64_t outer = item / blocks, first = (item - outer * blocks) * block, n = std::min(block, lines - first);
      const T* from = x + outer * top.axis * top.inner + first * line_step;
      const Wide* columns = turned;
      int64_t step = n;
      if constexpr (widens) {
        if (turns) {
          std::copy_n(from, n * top.axis, widened);
        } else {
          for (int64_t row = 0; row < top.axis; ++row) std::copy_n(from + row * top.inner, n, turned + row * n);
        }
      } else if (!turns) {
        columns = from, step = top.inner;
      }
      if (turns)
        transpose_2d(width, {top.axis, n, top.axis * width, n * width},
                     reinterpret_cast<const char*>(widens ? static_cast<const void*>(widened) : from),
                     reinterpret_cast<char*>(turned));
      few_top_k(columns, {top.axis, n, step, top.k, top.largest}, best);
      const int64_t to = outer * top.k * top.inner + first * result_step;
      for (int64_t i = 0; i < top.k; ++i)
        for (int64_t c = 0; c < n; ++c) {
          const int64_t row = best[i * n + c], at = to + c * result_step + i * top.inner;
          if (values) values[at] = from[c * line_step + row * top.inner];
          if (indices) indices[at] = row;
        }
    }
  };
  for_pieces(pool, (turns ? 1 : top.outer) * blocks, least_elements / (top.axis * block) + 1, run);
}

// A line of few elements, each put in its place among the best before it: the indices of the k best. 994671 lines of 2
// took 28 ms on a Zen 3 by way of candidates.
constexpr int64_t few = 16;
template <class T>
bool beats(T a, T b, bool largest) {
  if constexpr (std::is_floating_point_v<T>) {
    return largest ? (a > b) | ((a != a) & (b == b)) : (a < b) | ((a == a) & (b != b));
  } else {
    return largest ? a > b : a < b;
  }
}
template <class T>
void top_k_of_few(const T* x, int64_t step, int64_t axis, int64_t k, bool largest, T* values, int64_t* indices) {
  if (k == 1) {  // without a branch that depends on the elements
    int64_t at = 0;
    for (int64_t a = 1; a < axis; ++a) at = beats(x[a * step], x[at * step], largest) ? a : at;
    values[0] = x[at * step];
    indices[0] = at;
    return;
  }
  int64_t kept = 0;
  for (int64_t a = 0; a < axis; ++a) {
    const T v = x[a * step];
    int64_t at = kept;
    while (at > 0 && beats(v, values[at - 1], largest)) --at;  // of equals the earlier one stays in front
    if (at == k) continue;
    kept = std::min(kept + 1, k);
    for (int64_t i = kept - 1; i > at; --i) values[i] = values[i - 1], indices[i] = indices[i - 1];
    values[at] = v;
    indices[at] = a;
  }
}
constexpr int64_t elements_a_part = 1 << 18;  // of a line, between two questions whether to stop

#define CAMSHAFT_FILTER(name, T)                                                                        \
  HWY_EXPORT(filter_##name);                                                                            \
  void filter_part(const T* x, int64_t begin, int64_t end, bool largest, CandidatesOf<T>& candidates) { \
    HWY_DYNAMIC_DISPATCH(filter_##name)(x, begin, end, largest, candidates);                            \
  }
CAMSHAFT_ELEMENT_TYPES(CAMSHAFT_FILTER)
#undef CAMSHAFT_FILTER

}  // namespace

// Twice as many as are wanted: then each cut, which takes time in proportion, throws half of them away.
int64_t TopK::candidates() const {
  return std::min(axis + 1, 2 * k + 64);
}
// Neighbouring lines are copied together, a cache line of each row, or looked through together.
bool TopK::side_by_side() const {
  return inner >= 16 && k <= Candidates32::most_sorted;
}
// Lines of which much is wanted are sorted, or the places of all elements counted where there are few of those.
bool TopK::ranks_lines(int64_t width) const {
  return width >= 4 && k > Candidates32::most_sorted && 4 * k >= axis && can_rank_words(axis, k);
}
bool TopK::sorts_lines(int64_t width) const {
  return width >= 4 && k > Candidates32::most_sorted && 4 * k >= axis && axis >= least_radix && axis <= most_radix &&
         !ranks_lines(width);
}
int64_t TopK::columns(int64_t width) const {
  return inner == 1 ? 0 : std::min<int64_t>(inner, side_by_side() ? 256 : std::max<int64_t>(16, 64 / width));
}
int64_t TopK::entries(int64_t width) const {
  return sorts_lines(width) ? 2 * axis : candidates();
}
int64_t TopK::thread_bytes(int64_t width) const {
  const int64_t entry = width < 8 ? 8 : 16;
  if (side_by_side()) return round_up(columns(width) * k * entry, 64) + round_up(columns(width) * width, 64);
  return round_up(entries(width) * entry, 64) + round_up(columns(width) * axis * width, 64);
}
int64_t TopK::workspace_bytes(DType dtype, int threads) const {
  return threads * thread_bytes(bit_width(dtype) / 8);
}

template <class T>
void TopK::run_as(ThreadPool& pool, const T* x, T* values, int64_t* indices, void* workspace) const {
  constexpr int64_t least_neighbours = 4;
  // Of bytes, the other way asks 64 at once whether one of them is better, which gains nothing over so few.
  const bool is_short = axis <= most_few_rows || (sizeof(T) == 1 && k == 1 && axis <= 2 * most_few_rows);
  if (is_short && k <= most_few_best && (inner == 1 || inner >= least_neighbours))
    return top_k_of_short_lines(*this, pool, x, values, indices);
  using Best = CandidatesOf<T>;
  using Entry = std::remove_pointer_t<decltype(Best::list)>;
  constexpr auto width = static_cast<int64_t>(sizeof(T));
  const int64_t block = std::max<int64_t>(1, columns(width)), blocks = (inner + block - 1) / block;
  const int64_t items = outer * blocks, grain = least_elements / (axis * block) + 1;
  // As parallel_for cuts them, but each thread needs to know which one it is.
  const auto threads = static_cast<int>(std::min<int64_t>(pool.size(), (items + grain - 1) / grain));
  const auto part = [&](int thread) {
    char* own = static_cast<char*>(workspace) + thread * thread_bytes(width);
    auto* list = reinterpret_cast<Entry*>(own);
    const int64_t kept = side_by_side() ? block * k : entries(width);
    auto* lines = reinterpret_cast<T*>(own + round_up(kept * static_cast<int64_t>(sizeof(Entry)), 64));
    PacedCancellation cancellation;
    for (int64_t item = items * thread / threads; item < items * (thread + 1) / threads; ++item) {
      // Divisions would take as long as a line of few.
      const int64_t o = blocks == 1 ? item : item / blocks, first = blocks == 1 ? 0 : item % blocks * block,
                    n = std::min(block, inner - first);
      const T* from = x + o * axis * inner + first;
      if (axis <= few && !side_by_side()) {
        T best[few];
        int64_t at[few];
        for (int64_t c = 0; c < n; ++c) {
          top_k_of_few(from + c, inner, axis, k, largest, best, at);
          for (int64_t i = 0; i < k; ++i) {
            const int64_t to = (o * k + i) * inner + first + c;
            if (values) values[to] = best[i];
            if (indices) indices[to] = at[i];
          }
        }
        cancellation.did(n * axis);
        continue;
      }
      if (side_by_side()) {
        top_k_of_columns(from, {axis, n, inner, k, largest}, list, lines, cancellation);
        for (int64_t i = 0; i < k; ++i)
          for (int64_t c = 0; c < n; ++c) {
            const int64_t index = Best::index_of(list[c * k + i]), to = (o * k + i) * inner + first + c;
            if (values) values[to] = from[index * inner + c];
            if (indices) indices[to] = index;
          }
        continue;
      }
      if (inner > 1)
        for (int64_t a = 0; a < axis; ++a)
          for (int64_t c = 0; c < n; ++c) lines[c * axis + a] = from[a * inner + c];
      for (int64_t c = 0; c < n; ++c) {
        const T* line = inner > 1 ? lines + c * axis : from;
        const int64_t to = o * k * inner + first + c;
        const auto write = [&](const auto& index_of) {
          for (int64_t i = 0; i < k; ++i) {
            cancellation.did(1);
            const int64_t index = index_of(i);
            if (values) values[to + i * inner] = line[index];
            if (indices) indices[to + i * inner] = index;
          }
        };
        if constexpr (sizeof(T) <= 2) {
          // Counting passes over the line several times: 100 of 10^5 took 200 to 400 us, candidates take some 50.
          if (k > Best::most_sorted && 8 * k >= axis) {
            auto* order = reinterpret_cast<uint32_t*>(list);
            bool is_ranked = false;
            if constexpr (sizeof(T) == 2) {
              is_ranked = axis <= most_ranked;
              if (is_ranked) rank_top_k(line, axis, k, largest, order);
            }
            if (!is_ranked) narrow_top_k(line, axis, k, largest, order, cancellation);
            write([&](int64_t i) { return static_cast<int64_t>(order[i]); });
            continue;
          }
        }
        if constexpr (sizeof(T) >= 4) {
          static_assert(sizeof(RadixEntry<T>) == sizeof(Entry));
          if (ranks_lines(width)) {
            auto* order = reinterpret_cast<uint32_t*>(own);
            rank_top_k(line, axis, k, largest, order);
            write([&](int64_t i) { return static_cast<int64_t>(order[i]); });
            continue;
          }
          if (sorts_lines(width)) {
            const auto* sorted = radix_top_k(line, axis, largest, reinterpret_cast<RadixEntry<T>*>(own), cancellation);
            write([&](int64_t i) { return static_cast<int64_t>(sorted[i].index); });
            continue;
          }
        }
        Best best{list, candidates(), k, 0, 0, false};
        for (int64_t begin = 0; begin < axis; begin += elements_a_part) {
          const int64_t end = std::min(axis, begin + elements_a_part);
          cancellation.did(end - begin);
          filter_part(line, begin, end, largest, best);
        }
        best.shrink();
        best.sort();
        write([&](int64_t i) { return Best::index_of(list[i]); });
      }
    }
  };
  if (threads == 1) return part(0);
  pool.run([&](int thread) {
    if (thread < threads) part(thread);
  });
}

void TopK::run(ThreadPool& pool, DType dtype, const void* x, void* values, int64_t* indices, void* workspace) const {
  if (outer * axis * inner * k == 0) return;
  if (axis == 1) {  // there is nothing to choose
    const int64_t bytes = outer * inner * bit_width(dtype) / 8;
    if (values) std::memcpy(values, x, static_cast<size_t>(bytes));
    if (indices) std::fill_n(indices, outer * inner, 0);
    return;
  }
  with_type(dtype, "top_k", [&](auto element) {
    using T = decltype(element);
    run_as(pool, static_cast<const T*>(x), static_cast<T*>(values), indices, workspace);
  });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
