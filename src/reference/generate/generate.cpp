// The reference evaluation of dims, shape_of and range.
#include "ir/ops/generate.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "reference/element_io.h"

namespace camshaft::ops {

std::vector<Tensor> DimsTensor::evaluate(const EvalContext& context) const {
  const Dims values = context.evaluate(elements);
  Tensor out(dtype, scalar ? Dims{} : Dims{static_cast<int64_t>(values.size())});
  store_elements(dtype, out.mutable_data(), 0, 1, out.size(), values.data());
  return {out};
}

std::vector<Tensor> ShapeOf::evaluate(const EvalContext& context) const {
  const Dims& dims = context.input(0).dims();
  return {Tensor::from_ints(Dims(dims.begin() + start, dims.begin() + end))};
}

namespace {

// start + i · delta; of integers modulo 2^64: the sum is in range, though the product may not be.
template <class T>
T element(T start, T delta, int64_t i) {
  if constexpr (std::is_floating_point_v<T>) {
    return start + static_cast<T>(i) * delta;
  } else {
    return static_cast<T>(static_cast<uint64_t>(start) + static_cast<uint64_t>(i) * static_cast<uint64_t>(delta));
  }
}

}  // namespace

std::vector<Tensor> Range::evaluate(const EvalContext& context) const {
  const int64_t count = range_count(context.input(0), context.input(1), context.input(2));
  const DType dtype = context.input(0).dtype();
  Tensor out(dtype, {count});
  std::byte* to = out.mutable_data();
  with_wide_type(dtype, [&]<class T>(const T&) {
    T start, delta;
    load_elements(dtype, context.input(0).data(), 0, 1, 1, &start);
    load_elements(dtype, context.input(2).data(), 0, 1, 1, &delta);
    context.pool.parallel_for(count, 1 << 14, [&](int64_t begin, int64_t end) {
      constexpr int64_t chunk = 64;
      T values[chunk];
      for (int64_t done = begin; done < end; done += chunk) {
        const int64_t n = std::min(chunk, end - done);
        for (int64_t i = 0; i < n; ++i) values[i] = element(start, delta, done + i);
        store_elements(dtype, to, done, 1, n, values);
      }
    });
  });
  return {out};
}

}  // namespace camshaft::ops
