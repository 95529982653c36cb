// The reference evaluation of reduce and arg_reduce.
#include "ir/ops/reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/pieces.h"
#include "base/thread_pool.h"
#include "ir/ops/broadcast.h"
#include "ir/ops/strides.h"
#include "reference/element_io.h"
#include "reference/pointwise/scalar_math.h"

namespace camshaft::ops {

namespace {

constexpr int64_t reduced_chunk = 1024;

template <class T>
T lowest_of(DType dtype) {
  if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
  if (!is_signed(dtype)) return 0;
  return static_cast<T>(int64_t{-1} * (int64_t{1} << (bit_width(dtype) - 2)) * 2);
}

template <class T>
T highest_of(DType dtype) {
  if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::infinity();
  if (dtype == DType::boolean) return 1;
  if (!is_signed(dtype)) return static_cast<T>(~uint64_t{0} >> (64 - bit_width(dtype)));
  return static_cast<T>((uint64_t{1} << (bit_width(dtype) - 1)) - 1);
}

template <class T>
T identity(ReduceKind kind, DType dtype) {
  switch (kind) {
    case ReduceKind::max:
      return lowest_of<T>(dtype);
    case ReduceKind::min:
      return highest_of<T>(dtype);
    case ReduceKind::prod:
      return 1;
    default:
      return 0;
  }
}

// sums[i·sum_step] takes in values[i].
template <class T>
void accumulate(ReduceKind kind, T* sums, int64_t sum_step, const T* values, int64_t count) {
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < count; ++i) sums[i * sum_step] = static_cast<T>(f(sums[i * sum_step], values[i]));
  };
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::mean:
      return each([](T s, T v) { return wrap(s) + wrap(v); });
    case ReduceKind::sum_squares:
      return each([](T s, T v) { return wrap(s) + wrap(v) * wrap(v); });
    case ReduceKind::sum_abs:
      return each([](T s, T v) { return v < 0 ? wrap(s) - wrap(v) : wrap(s) + wrap(v); });
    case ReduceKind::prod:
      return each([](T s, T v) { return wrap(s) * wrap(v); });
    case ReduceKind::max:
      return each([](T s, T v) { return s != s || s > v ? s : v; });  // a NaN stays, and one that comes is taken
    case ReduceKind::min:
      return each([](T s, T v) { return s != s || s < v ? s : v; });
  }
}

template <class T>
void finish(ReduceKind kind, T* sums, int64_t count, int64_t reduced) {
  if (kind != ReduceKind::mean) return;
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      sums[i] /= static_cast<T>(reduced);
    } else {
      sums[i] = reduced == 0 ? 0 : static_cast<T>(sums[i] / static_cast<T>(reduced));
    }
  }
}

// Kept and reduced axes as two loops over the input.
struct Split {
  LoopNest kept, reduced;
};

Split split(const Dims& dims, const std::vector<int64_t>& axes) {
  const Dims strides = row_major_strides(dims);
  Dims sizes[2], steps[2];
  for (size_t i = 0; i < dims.size(); ++i) {
    const size_t which = std::count(axes.begin(), axes.end(), static_cast<int64_t>(i)) ? 1 : 0;
    sizes[which].push_back(dims[i]);
    steps[which].push_back(strides[i]);
  }
  return {collapse(sizes[0], {steps[0]}), collapse(sizes[1], {steps[1]})};
}

template <class T>
void evaluate_reduce(ReduceKind kind, const Tensor& in, const Split& loops, Tensor& out, ThreadPool& pool) {
  std::byte* target = out.mutable_data();
  const int64_t reduced = loops.reduced.total(), kept_step = loops.kept.strides[0].back();
  const int64_t reduced_step = loops.reduced.strides[0].back();
  // Where the innermost axis of memory is kept, whole runs of outputs are summed side by side.
  const bool side_by_side = kept_step == 1 && loops.kept.sizes.back() > 1;
  pool.parallel_for(out.size(), side_by_side ? 64 : 1, [&](int64_t begin, int64_t end) {
    std::vector<T> values(reduced_chunk), sums(reduced_chunk);
    PacedCancellation cancellation;
    for (int64_t first = begin; first < end; first += reduced_chunk) {
      const int64_t block = std::min(reduced_chunk, end - first);
      std::fill_n(sums.begin(), block, identity<T>(kind, in.dtype()));
      for_runs(loops.kept, first, first + block, [&](int64_t position, const Dims& kept, int64_t count) {
        T* sum = &sums[static_cast<size_t>(position - first)];
        for_runs(loops.reduced, 0, reduced, [&](int64_t, const Dims& offset, int64_t length) {
          const int64_t source = kept[0] + offset[0];
          if (side_by_side) {
            for (int64_t r = 0; r < length; ++r) {
              load_elements(in.dtype(), in.data(), source + r * reduced_step, 1, count, values.data());
              accumulate(kind, sum, 1, values.data(), count);
              cancellation.did(count);
            }
            return;
          }
          for (int64_t o = 0; o < count; ++o)
            for (int64_t r = 0; r < length; r += reduced_chunk) {
              const int64_t part = std::min(reduced_chunk, length - r);
              load_elements(in.dtype(), in.data(), source + o * kept_step + r * reduced_step, reduced_step, part,
                            values.data());
              accumulate(kind, sum + o, 0, values.data(), part);
              cancellation.did(part);
            }
        });
      });
      finish(kind, sums.data(), block, reduced);
      store_elements(out.dtype(), target, first, 1, block, sums.data());
    }
  });
}

Dims reduced_dims(const Dims& dims, const std::vector<int64_t>& axes, bool keep_dims) {
  Dims out;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool reduced = std::count(axes.begin(), axes.end(), static_cast<int64_t>(i)) != 0;
    if (!reduced) {
      out.push_back(dims[i]);
    } else if (keep_dims) {
      out.push_back(1);
    }
  }
  return out;
}

}  // namespace

std::vector<Tensor> Reduce::evaluate(const EvalContext& context) const {
  const Tensor& in = context.input(0);
  if (axes.empty() && kind != ReduceKind::sum_squares && kind != ReduceKind::sum_abs) return {in};
  Tensor out(in.dtype(), reduced_dims(in.dims(), axes, keep_dims));
  const Split loops = split(in.dims(), axes);
  with_wide_type(in.dtype(), [&](auto type) { evaluate_reduce<decltype(type)>(kind, in, loops, out, context.pool); });
  return {std::move(out)};
}

// As NumPy: a NaN counts as the largest and as the smallest, and the first one wins.
std::vector<Tensor> ArgReduce::evaluate(const EvalContext& context) const {
  const Tensor& in = context.input(0);
  const int64_t length = in.dims()[static_cast<size_t>(axis)];
  Tensor out(DType::i64, reduced_dims(in.dims(), {axis}, keep_dims));
  if (length == 0 && out.size() > 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("arg_reduce of {} along an axis of size 0", to_string(in.dims())));
  const int64_t stride = row_major_strides(in.dims())[static_cast<size_t>(axis)];
  auto* target = out.as_mutable<int64_t>();
  with_wide_type(in.dtype(), [&](auto type) {
    using T = decltype(type);
    for_pieces(context.pool, out.size(), 16, [&](int64_t begin, int64_t end) {
      std::vector<T> values(static_cast<size_t>(length));
      for (int64_t i = begin; i < end; ++i) {
        load_elements(in.dtype(), in.data(), i / stride * stride * length + i % stride, stride, length, values.data());
        size_t best = 0;
        for (size_t j = 1; j < values.size(); ++j) {
          const T candidate = values[j], current = values[best];
          if (current != current) break;
          const bool better = largest ? candidate > current : candidate < current;
          if (better || candidate != candidate || (select_last && candidate == current)) best = j;
        }
        target[i] = static_cast<int64_t>(best);
      }
    });
  });
  return {std::move(out)};
}

}  // namespace camshaft::ops
