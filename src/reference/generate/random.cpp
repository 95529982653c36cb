// The reference evaluation of random and multinomial.
#include "base/random.h"

#include <algorithm>
#include <cmath>

#include "base/pieces.h"
#include "ir/ops/random.h"
#include "ir/ops/shape_rules.h"
#include "reference/element_io.h"

namespace camshaft::ops {

namespace {

// So many bits of a number in [0, 1) survive the rounding to the dtype: it never becomes 1.
int mantissa_bits(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 11;
    case DType::bf16:
      return 8;
    case DType::f32:
      return 24;
    default:
      return 53;
  }
}

}  // namespace

std::vector<Tensor> RandomTensor::evaluate(const EvalContext& context) const {
  Tensor out(dtype, context.has(0) ? context.input(0).dims() : context.evaluate(shape));
  std::byte* to = out.mutable_data();
  const CounterRandom random(static_cast<uint64_t>(seed));
  const int bits = mantissa_bits(dtype);
  for_pieces(context.pool, out.size(), 1 << 12, [&](int64_t begin, int64_t end) {
    constexpr int64_t chunk = 64;
    double values[chunk];
    for (int64_t done = begin; done < end; done += chunk) {
      const int64_t n = std::min(chunk, end - done);
      for (int64_t i = 0; i < n; ++i) {
        const auto position = static_cast<uint64_t>(done + i);
        values[i] = distribution == Distribution::normal ? a + b * random.normal(position)
                                                         : a + (b - a) * random.uniform(position, bits);
      }
      store_elements(dtype, to, done, 1, n, values);
    }
  });
  return {out};
}

std::vector<Tensor> Multinomial::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const int64_t rows = x.dims()[0], classes = x.dims()[1];
  if (rows > 0 && classes == 0) fail_rule("there are no classes to draw from");
  Tensor out(dtype, {rows, samples});
  std::byte* to = out.mutable_data();
  const CounterRandom random(static_cast<uint64_t>(seed));
  for_pieces(context.pool, rows, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> sums(static_cast<size_t>(classes));
    PacedCancellation cancellation;
    for (int64_t row = begin; row < end; ++row) {
      load_elements(x.dtype(), x.data(), row * classes, 1, classes, sums.data());
      const double largest = *std::max_element(sums.begin(), sums.end());
      double total = 0;
      for (double& value : sums) {
        cancellation.did(1);
        value = total += std::isinf(largest) ? value == largest : std::exp(value - largest);
      }
      for (int64_t s = 0; s < samples; ++s) {
        cancellation.did(1);
        const int64_t at = row * samples + s;
        const double target = random.uniform(static_cast<uint64_t>(at)) * total;
        const auto found = std::upper_bound(sums.begin(), sums.end(), target) - sums.begin();
        const int64_t drawn = std::min<int64_t>(found, classes - 1);  // NaNs compare with nothing
        store_elements(dtype, to, at, 1, 1, &drawn);
      }
    }
  });
  return {out};
}

}  // namespace camshaft::ops
