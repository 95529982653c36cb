// The reference evaluation of row_moments and row_norm.
#include "ir/ops/row_moments.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/pieces.h"
#include "reference/element_io.h"

namespace camshaft::ops {

namespace {

// Rows are many and short: a thread takes several.
constexpr int64_t rows_at_once = 64;

}  // namespace

std::vector<Tensor> RowMoments::evaluate(const EvalContext& context) const {
  const Tensor& in = context.input(0);
  Tensor out(DType::f32, context.output_dims(0));
  if (in.dims().back() % width != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: rows of {} elements have no parts of {}", name, in.dims().back(), width));
  auto* target = out.as_mutable<float>();
  for_pieces(context.pool, in.size() / width, rows_at_once, [&](int64_t begin, int64_t end) {
    std::vector<double> part(static_cast<size_t>(width));
    for (int64_t i = begin; i < end; ++i) {
      load_elements(in.dtype(), in.data(), i * width, 1, width, part.data());
      double mean = 0, squares = 0;
      for (const double v : part) mean += v / static_cast<double>(width);
      for (const double v : part) squares += (v - mean) * (v - mean);
      target[2 * i] = static_cast<float>(mean);
      target[2 * i + 1] = static_cast<float>(squares);
    }
  });
  return {std::move(out)};
}

std::vector<Tensor> RowNorm::evaluate(const EvalContext& context) const {
  const Tensor& in = context.input(0);
  Tensor means(DType::f32, context.output_dims(0)), factors(DType::f32, context.output_dims(1));
  const int64_t parts = in.dims()[in.dims().size() - 2];
  const auto* from = in.as<float>();
  const auto count = static_cast<double>(parts), elements = static_cast<double>(width);
  PacedCancellation cancellation;
  for (int64_t row = 0; row < means.size(); ++row, from += 2 * parts) {
    cancellation.did(2 * parts);
    double mean = 0, squares = 0;
    if (!root_mean_square)
      for (int64_t p = 0; p < parts; ++p) mean += from[2 * p] / count;
    for (int64_t p = 0; p < parts; ++p)
      squares += from[2 * p + 1] + elements * (from[2 * p] - mean) * (from[2 * p] - mean);
    means.as_mutable<float>()[row] = static_cast<float>(mean);
    factors.as_mutable<float>()[row] = static_cast<float>(1 / std::sqrt(squares / (count * elements) + epsilon));
  }
  return {std::move(means), std::move(factors)};
}

}  // namespace camshaft::ops
