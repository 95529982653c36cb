#include "cpu/kernels/reduce.h"

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>

#include "camshaft/error.h"
#include "cpu/kernels/reduce_rows.h"
#include "cpu/kernels/strided.h"
#include "cpu/kernels/with_type.h"

namespace camshaft::cpu {
namespace {

constexpr int64_t max_block = 512;
constexpr int64_t least_elements = 32 * 1024;

// What partial results are kept in: f32 in double, for its digits; integers in an unsigned type, so that they wrap.
template <class T>
using Partial =
    std::conditional_t<std::is_floating_point_v<T>, double, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

template <class T>
Partial<T> identity(ReduceKind kind) {
  using Limits = std::numeric_limits<T>;
  switch (kind) {
    case ReduceKind::max:
      return Limits::has_infinity ? static_cast<Partial<T>>(-Limits::infinity())
                                  : static_cast<Partial<T>>(Limits::lowest());
    case ReduceKind::min:
      return static_cast<Partial<T>>(Limits::has_infinity ? Limits::infinity() : Limits::max());
    case ReduceKind::prod:
      return 1;
    default:
      return 0;
  }
}

template <class T>
T wrapping(T a, T b, bool multiply) {
  if constexpr (std::is_floating_point_v<T>) {
    return multiply ? a * b : a + b;
  } else {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(multiply ? x * y : x + y);
  }
}

// Combines one more element into a partial result.
template <class P>
P combine(ReduceKind kind, P a, P x) {
  switch (kind) {
    case ReduceKind::max:
      return x > a || x != x ? x : a;
    case ReduceKind::min:
      return x < a || x != x ? x : a;
    case ReduceKind::prod:
      return wrapping(a, x, true);
    case ReduceKind::sum_square:
      return wrapping(a, wrapping(x, x, true), false);
    case ReduceKind::sum_abs:
      return wrapping(a, x < P(0) ? wrapping(P(-1), x, true) : x, false);
    default:
      return wrapping(a, x, false);
  }
}

// Combines two partial results: squares and magnitudes are taken already.
template <class P>
P merge(ReduceKind kind, P a, P b) {
  const bool sums = kind == ReduceKind::sum_square || kind == ReduceKind::sum_abs;
  return combine(sums ? ReduceKind::sum : kind, a, b);
}

template <class T>
void rows_into(ReduceKind kind, const T* x, int64_t n, int64_t step, Partial<T>& total) {
  if constexpr (std::is_same_v<T, float>) {
    if (step == 1) {
      total = merge(kind, total, reduce_row(kind, x, n));
      return;
    }
  }
  for (int64_t i = 0; i < n; ++i) total = combine(kind, total, static_cast<Partial<T>>(x[i * step]));
}

template <class T>
void columns_into(ReduceKind kind, const T* x, int64_t rows, int64_t stride, int64_t count, Partial<T>* total) {
  if constexpr (std::is_same_v<T, float>) {
    reduce_columns(kind, x, rows, stride, count, total);
  } else {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < count; ++c)
        total[c] = combine(kind, total[c], static_cast<Partial<T>>(x[r * stride + c]));
    }
  }
}

template <class T>
T finish(ReduceKind kind, Partial<T> total, int64_t count) {
  if (kind != ReduceKind::mean) return static_cast<T>(total);
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(total / static_cast<double>(count));
  } else {
    return count == 0 ? T(0) : static_cast<T>(total / static_cast<Partial<T>>(count));
  }
}

// Offset of the index-th element of a sub-space.
int64_t offset_of(int64_t index, int rank, const int64_t* dims, const int64_t* strides) {
  int64_t offset = 0;
  for (int d = rank; d-- > 0;) {
    offset += index % dims[d] * strides[d];
    index /= dims[d];
  }
  return offset;
}

}  // namespace

Reduce::Reduce(ReduceKind kind, DType dtype, const std::vector<int64_t>& dims, const std::vector<int>& axes)
    : kind_(kind), dtype_(dtype) {
  with_type(dtype, "reduction", [](auto) {});
  std::vector<bool> goes(dims.size(), false);
  for (int axis : axes) {
    if (axis < 0 || axis >= static_cast<int>(dims.size()) || goes[static_cast<size_t>(axis)]) {
      throw Error(ErrorCode::internal, "a reduction of rank " + std::to_string(dims.size()) + " was given the axis " +
                                           std::to_string(axis) + ", out of range or twice");
    }
    goes[static_cast<size_t>(axis)] = true;
  }
  const std::vector<int64_t> strides = contiguous_strides(dims);
  int last = -1;  // of the previous dim: 1 goes, 0 stays
  for (size_t d = 0; d < dims.size(); ++d) {
    (goes[d] ? count_ : outputs_) *= dims[d];
    if (dims[d] == 1) continue;
    auto& sizes = goes[d] ? reduced_dims_ : kept_dims_;
    auto& steps = goes[d] ? reduced_strides_ : kept_strides_;
    if (last == static_cast<int>(goes[d])) {  // neighbours of a dense tensor always merge
      sizes.back() *= dims[d];
      steps.back() = strides[d];
    } else {
      sizes.push_back(dims[d]);
      steps.push_back(strides[d]);
    }
    last = goes[d];
  }
  inner_reduced_ = last != 0;
  if (reduced_dims_.empty()) {
    reduced_dims_ = {1};
    reduced_strides_ = {1};
  }
  if (kept_dims_.empty()) {
    kept_dims_ = {1};
    kept_strides_ = {1};
  }
}

template <class T>
void Reduce::run_as(ThreadPool& pool, const T* in, T* out) const {
  using P = Partial<T>;
  const P start = identity<T>(kind_);
  const int reduced_rank = static_cast<int>(reduced_dims_.size());
  const int kept_rank = static_cast<int>(kept_dims_.size());
  if (count_ == 0) {
    std::fill_n(out, outputs_, finish<T>(kind_, start, 0));
    return;
  }
  if (inner_reduced_) {
    // Each output: all rows of consecutive elements that go into it.
    const int64_t length = reduced_dims_.back();
    const int64_t rows = count_ / length;
    pool.parallel_for(outputs_, (least_elements + count_ - 1) / count_, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const T* from = in + offset_of(o, kept_rank, kept_dims_.data(), kept_strides_.data());
        P total = start;
        for (int64_t r = 0; r < rows; ++r) {
          const T* row =
              rows == 1 ? from : from + offset_of(r, reduced_rank - 1, reduced_dims_.data(), reduced_strides_.data());
          rows_into(kind_, row, length, reduced_strides_.back(), total);
        }
        out[o] = finish<T>(kind_, total, count_);
      }
    });
    return;
  }
  // Blocks of consecutive outputs: rows of consecutive elements are added to each other. The innermost of the dims that
  // go gives the rows of a call.
  const int64_t width = kept_dims_.back();
  const int64_t block = std::min(width, max_block);
  const int64_t blocks = (width + block - 1) / block;
  const int64_t rows = reduced_dims_.back();
  const int64_t outer_rows = count_ / rows;
  const int64_t items = outputs_ / width * blocks;
  pool.parallel_for(items, (least_elements + block * count_ - 1) / (block * count_), [&](int64_t begin, int64_t end) {
    P total[max_block];
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item % blocks * block;
      const int64_t n = std::min(block, width - first);
      const T* from = in + offset_of(item / blocks, kept_rank - 1, kept_dims_.data(), kept_strides_.data()) + first;
      std::fill_n(total, n, start);
      for (int64_t r = 0; r < outer_rows; ++r) {
        const int64_t offset = offset_of(r, reduced_rank - 1, reduced_dims_.data(), reduced_strides_.data());
        columns_into(kind_, from + offset, rows, reduced_strides_.back(), n, total);
      }
      T* to = out + item / blocks * width + first;
      for (int64_t c = 0; c < n; ++c) to[c] = finish<T>(kind_, total[c], count_);
    }
  });
}

void Reduce::run(ThreadPool& pool, const void* in, void* out) const {
  if (outputs_ == 0) return;
  with_type(dtype_, "reduction", [&](auto element) {
    using T = decltype(element);
    run_as(pool, static_cast<const T*>(in), static_cast<T*>(out));
  });
}

}  // namespace camshaft::cpu
