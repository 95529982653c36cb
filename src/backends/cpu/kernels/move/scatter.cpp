#include "backends/cpu/kernels/move/scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/kernels/half.h"
#include "backends/cpu/kernels/move/fill.h"
#include "backends/cpu/kernels/with_type.h"
#include "base/pieces.h"
#include "base/work_scope.h"
#include "ir/ops/strides.h"

namespace camshaft::cpu {
namespace {

constexpr int64_t least_elements = 16 * 1024;

template <class T>
constexpr bool is_half = std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;

template <class T>
T combined(ScatterCombine combine, T a, T b) {
  if constexpr (is_half<T>) {  // extremes alone: the larger or smaller of both, as it is
    const float x = to_float(a), y = to_float(b);
    return x != x || (combine == ScatterCombine::max ? x > y : x < y) ? a : b;
  } else {
    switch (combine) {
      case ScatterCombine::add:
        if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
        return a + b;
      case ScatterCombine::mul:
        if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
        return a * b;
      case ScatterCombine::max:
        return a != a || a > b ? a : b;  // NaN if either is NaN
      case ScatterCombine::min:
        return a != a || a < b ? a : b;
      case ScatterCombine::assign:
        break;
    }
    return b;
  }
}

// Each way of combining in a loop of its own, which the compiler makes vectors of.
template <class T>
void combine_row(ScatterCombine combine, const T* from, int64_t n, T* to) {
  const auto each = [&](auto way) {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) to[j] = combined(decltype(way)::value, to[j], from[j]);
  };
  switch (combine) {
    case ScatterCombine::add:
      return each(std::integral_constant<ScatterCombine, ScatterCombine::add>());
    case ScatterCombine::mul:
      return each(std::integral_constant<ScatterCombine, ScatterCombine::mul>());
    case ScatterCombine::max:
      return each(std::integral_constant<ScatterCombine, ScatterCombine::max>());
    case ScatterCombine::min:
      return each(std::integral_constant<ScatterCombine, ScatterCombine::min>());
    case ScatterCombine::assign:
      return each(std::integral_constant<ScatterCombine, ScatterCombine::assign>());
  }
}

[[noreturn, gnu::cold, gnu::noinline]] void throw_out_of_range(int64_t index, int64_t size, int64_t axis) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("index {} is out of range for axis {} of size {}", index, axis, size));
}

// `index` counted from the front.
inline int64_t counted(int64_t index, int64_t size) {
  return index + (size & (index >> 63));
}
inline bool is_inside(int64_t at, int64_t size) {
  return static_cast<uint64_t>(at) < static_cast<uint64_t>(size);
}
inline int64_t checked(int64_t index, int64_t size, int64_t axis) {
  const int64_t at = counted(index, size);
  if (!is_inside(at, size)) [[unlikely]]
    throw_out_of_range(index, size, axis);
  return at;
}

// Slices whose places are found before any of them is touched: memory brings their lines all at once meanwhile. One
// by one, GatherND of 10^6 elements of a matrix of 4 MB took four times as long.
constexpr int64_t most_places = 64;

// The slices that `count` <= most_places indices of kDepth numbers name; of `depth`, where kDepth is 0.
template <int kDepth, class Index>
void find_slices(const int64_t* sizes, int64_t depth, const Index* index, int64_t count, int64_t* places) {
  const int64_t numbers = kDepth ? kDepth : depth;
  for (int64_t i = 0; i < count; ++i, index += numbers) {
    int64_t slice = 0;
    for (int64_t a = 0; a < numbers; ++a) slice = slice * sizes[a] + checked(index[a], sizes[a], a);
    places[i] = slice;
  }
}

template <class Index>
void find_slices(const IndexedSlices& at, const Index* index, int64_t count, int64_t* places) {
  const auto depth = static_cast<int64_t>(at.sizes.size());
  const auto find = depth == 1   ? find_slices<1, Index>
                    : depth == 2 ? find_slices<2, Index>
                    : depth == 3 ? find_slices<3, Index>
                                 : find_slices<0, Index>;
  find(at.sizes.data(), depth, index, count, places);
}

// visit(const int64_t*) or visit(const int32_t*)
template <class Visit>
void with_indices(const void* indices, DType type, Visit&& visit) {
  if (type == DType::i64) return visit(static_cast<const int64_t*>(indices));
  visit(static_cast<const int32_t*>(indices));
}

// out[i] = base[i] for i of [begin, end) elements of `width` bytes.
void copy_base(const ScatterBase& base, int64_t width, int64_t begin, int64_t end, void* out) {
  auto* const to = static_cast<char*>(out) + begin * width;
  if (base.is_element) return fill_elements(width, base.data, to, end - begin);
  if (base.data != out && end > begin)
    std::memcpy(to, static_cast<const char*>(base.data) + begin * width, static_cast<size_t>((end - begin) * width));
}

// A type to move elements in, or to combine them in.
template <class Visit>
void with_element(ScatterCombine combine, DType dtype, Visit&& visit) {
  if (combine == ScatterCombine::assign) return with_width(bit_width(dtype) / 8, visit);
  if (dtype == DType::f16) return visit(Half());
  if (dtype == DType::bf16) return visit(BFloat());
  with_type(dtype, "scatter", visit);
}

}  // namespace

int64_t IndexedSlices::slices() const {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

IndexedSlices indexed_slices(const std::vector<int64_t>& x, const std::vector<int64_t>& indices, size_t batch_axes) {
  const size_t beyond = batch_axes + static_cast<size_t>(indices.back());
  IndexedSlices at;
  for (size_t d = batch_axes; d < beyond; ++d) at.sizes.push_back(x[d]);
  at.batches = ops::product(x, 0, batch_axes);
  at.inner = ops::product(x, beyond, x.size());
  at.count = ops::product(indices, 0, indices.size() - 1);
  return at;
}

void scatter_slices(ThreadPool& pool, const IndexedSlices& at, ScatterCombine combine, DType dtype,
                    const ScatterBase& base, const void* indices, DType index_type, const void* updates, void* out) {
  const int64_t slices = at.slices();
  // Threads share out the slices, not the updates: of repeated indices the later one wins, however many threads.
  const bool few = at.count * at.inner < least_elements && (base.data == out || slices * at.inner < 8 * least_elements);
  with_indices(indices, index_type, [&](const auto* index) {
    with_element(combine, dtype, [&](auto element) {
      using T = decltype(element);
      pool.parallel_for(slices, few ? slices : 1, [&](int64_t begin, int64_t end) {
        auto* to = static_cast<T*>(out);
        const auto* from = static_cast<const T*>(updates);
        copy_base(base, sizeof(T), begin * at.inner, end * at.inner, out);
        const auto depth = static_cast<int64_t>(at.sizes.size());
        int64_t places[most_places];
        for (int64_t first = 0; first < at.count; first += most_places) {
          if (first % (1 << 16) == 0) cancellation_point();
          const int64_t count = std::min(most_places, at.count - first);
          find_slices(at, index + first * depth, count, places);
          // Nobody waits for what is only written.
          for (int64_t k = 0; combine != ScatterCombine::assign && k < count; ++k)
            __builtin_prefetch(to + places[k] * at.inner, 1);
          for (int64_t k = 0; k < count; ++k) {
            if (places[k] < begin || places[k] >= end) continue;
            T* target = to + places[k] * at.inner;
            const T* source = from + (first + k) * at.inner;
            if (at.inner == 1) {
              *target = combine == ScatterCombine::assign ? *source : combined(combine, *target, *source);
            } else if (combine != ScatterCombine::assign) {
              combine_row(combine, source, at.inner, target);
            } else if (at.inner > 0) {
              std::memcpy(target, source, static_cast<size_t>(at.inner) * sizeof(T));
            }
          }
        }
      });
    });
  });
}

void gather_slices(ThreadPool& pool, const IndexedSlices& at, int64_t width, const void* x, const void* indices,
                   DType index_type, void* out) {
  if (at.count == 0) return;
  const int64_t slices = at.slices(), a_batch = at.count / at.batches;
  const auto depth = static_cast<int64_t>(at.sizes.size());
  const int64_t grain = least_elements / std::max<int64_t>(1, at.inner) + 1;
  with_indices(indices, index_type, [&](const auto* index) {
    with_width(width, [&](auto element) {
      using T = decltype(element);
      for_pieces(pool, at.count, grain, [&](int64_t begin, int64_t end) {
        const auto* from = static_cast<const T*>(x);
        auto* to = static_cast<T*>(out);
        int64_t places[most_places];
        for (int64_t i = begin; i < end;) {
          const int64_t batch = i / a_batch, count = std::min({most_places, (batch + 1) * a_batch - i, end - i});
          find_slices(at, index + i * depth, count, places);
          const T* slice = from + batch * slices * at.inner;
          if (at.inner == 1) {
            for (int64_t k = 0; k < count; ++k) to[i + k] = slice[places[k]];
          } else if (at.inner > 0) {
            for (int64_t k = 0; k < count; ++k)
              std::memcpy(to + (i + k) * at.inner, slice + places[k] * at.inner,
                          static_cast<size_t>(at.inner) * sizeof(T));
          }
          i += count;
        }
      });
    });
  });
}

ScatterElements::ScatterElements(DType dtype, ScatterCombine combine, const std::vector<int64_t>& dims,
                                 const std::vector<int64_t>& counts, int64_t axis)
    : dtype_(dtype), combine_(combine), size_(dims[static_cast<size_t>(axis)]), axis_(axis) {
  const auto at = static_cast<size_t>(axis);
  std::vector<int64_t> strides(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    strides[d] = elements_;
    elements_ *= dims[d];
  }
  step_ = strides[at];
  length_ = counts[at];
  // Offsets in x of all positions of the axes [begin, end) of the indices.
  const auto offsets = [&](size_t begin, size_t end) {
    std::vector<int64_t> list{0};
    for (size_t d = begin; d < end; ++d) {
      std::vector<int64_t> next;
      next.reserve(list.size() * static_cast<size_t>(counts[d]));
      for (const int64_t offset : list)
        for (int64_t i = 0; i < counts[d]; ++i) next.push_back(offset + i * strides[d]);
      list = std::move(next);
    }
    return list;
  };
  outer_offsets_ = offsets(0, at);
  inner_offsets_ = offsets(at + 1, counts.size());
  outer_ = static_cast<int64_t>(outer_offsets_.size());
  inner_ = static_cast<int64_t>(inner_offsets_.size());
}

// Lines along the axis never meet: threads share out the lines, and each runs along its lines in order.
template <class T, class Index, class Apply>
void ScatterElements::apply(ThreadPool& pool, const Index* indices, const T* updates, T* out, Apply apply) const {
  const int64_t block = std::clamp<int64_t>(inner_, 1, 64), blocks = (inner_ + block - 1) / block;
  for_pieces(pool, outer_ * blocks, least_elements / std::max<int64_t>(1, length_ * block) + 1,
             [&](int64_t begin, int64_t end) {
               for (int64_t item = begin; item < end; ++item) {
                 const int64_t o = item / blocks, j0 = item % blocks * block, j1 = std::min(inner_, j0 + block);
                 T* base = out + outer_offsets_[static_cast<size_t>(o)];
                 if (inner_ == 1) {  // one line, whose elements and indices follow each other
                   const Index* index = indices + o * length_;
                   const T* from = updates + o * length_;
                   int64_t i = 0;
                   // None of eight is negative, as usual, and none is multiplied: with both asked of each, MaxUnpool to
                   // 10^6 elements took 151 us.
                   for (; step_ == 1 && i + 8 <= length_; i += 8) {
                     uint64_t furthest = 0;
                     for (int64_t k = i; k < i + 8; ++k) furthest = std::max(furthest, static_cast<uint64_t>(index[k]));
                     if (furthest >= static_cast<uint64_t>(size_)) break;
                     for (int64_t k = i; k < i + 8; ++k) apply(base[index[k]], from[k]);
                   }
                   for (; i + 4 <= length_; i += 4) {  // a branch for four of them
                     const int64_t a = counted(index[i], size_), b = counted(index[i + 1], size_);
                     const int64_t c = counted(index[i + 2], size_), d = counted(index[i + 3], size_);
                     // As unsigned numbers negative ones are beyond the end, too.
                     const auto furthest = std::max({static_cast<uint64_t>(a), static_cast<uint64_t>(b),
                                                     static_cast<uint64_t>(c), static_cast<uint64_t>(d)});
                     if (furthest >= static_cast<uint64_t>(size_)) break;
                     apply(base[a * step_], from[i]);
                     apply(base[b * step_], from[i + 1]);
                     apply(base[c * step_], from[i + 2]);
                     apply(base[d * step_], from[i + 3]);
                   }
                   for (; i < length_; ++i) apply(base[checked(index[i], size_, axis_) * step_], from[i]);
                   continue;
                 }
                 for (int64_t i = 0; i < length_; ++i) {
                   const int64_t row = (o * length_ + i) * inner_;
                   for (int64_t j = j0; j < j1; ++j) {
                     const int64_t position = checked(indices[row + j], size_, axis_);
                     apply(base[position * step_ + inner_offsets_[static_cast<size_t>(j)]], updates[row + j]);
                   }
                 }
               }
             });
}

void ScatterElements::run(ThreadPool& pool, const ScatterBase& base, const void* indices, DType index_type,
                          const void* updates, void* out) const {
  const int64_t width = bit_width(dtype_) / 8;
  if (base.data != out)
    pool.parallel_for(elements_, (1 << 18) / width,
                      [&](int64_t begin, int64_t end) { copy_base(base, width, begin, end, out); });
  if (outer_ * length_ * inner_ == 0) return;
  with_indices(indices, index_type, [&](const auto* index) {
    with_element(combine_, dtype_, [&](auto element) {
      using T = decltype(element);
      const auto* from = static_cast<const T*>(updates);
      auto* to = static_cast<T*>(out);
      switch (combine_) {
        case ScatterCombine::assign:
          return apply(pool, index, from, to, [](T& a, T b) { a = b; });
        case ScatterCombine::add:
          return apply(pool, index, from, to, [](T& a, T b) { a = combined(ScatterCombine::add, a, b); });
        case ScatterCombine::mul:
          return apply(pool, index, from, to, [](T& a, T b) { a = combined(ScatterCombine::mul, a, b); });
        case ScatterCombine::max:
          return apply(pool, index, from, to, [](T& a, T b) { a = combined(ScatterCombine::max, a, b); });
        case ScatterCombine::min:
          return apply(pool, index, from, to, [](T& a, T b) { a = combined(ScatterCombine::min, a, b); });
      }
    });
  });
}

}  // namespace camshaft::cpu
