#include "ir/ops/spatial.h"

#include <fmt/format.h>

#include "base/error.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

// Of pads, strides, dilations and windows: far below overflow in sums and products of positions; no image is larger.
constexpr int64_t limit = int64_t{1} << 31;

}  // namespace

void check_window_fields(std::string_view op, size_t spatial_rank, const std::vector<int64_t>& strides,
                         const Shape& pads, const std::vector<int64_t>& dilations) {
  const auto check = [&](std::string_view field, size_t got, size_t wanted) {
    if (got != wanted)
      throw Error(ErrorCode::invalid_model,
                  fmt::format("{} over {} spatial axes needs {} {}, got {}", op, spatial_rank, wanted, field, got));
  };
  check("strides", strides.size(), spatial_rank);
  check("pads", pads.size(), 2 * spatial_rank);
  check("dilations", dilations.size(), spatial_rank);
  for (const Dim& pad : pads)
    if (const auto size = pad.as_constant(); size && (*size > limit || *size < -limit))
      throw Error(ErrorCode::invalid_model, fmt::format("{}: a padding of {} is too large", op, *size));
  for (size_t i = 0; i < spatial_rank; ++i)
    if (strides[i] > limit || dilations[i] > limit)
      throw Error(ErrorCode::invalid_model,
                  fmt::format("{}: strides of {} and dilations of {} are too large", op, strides[i], dilations[i]));
  for (size_t i = 0; i < spatial_rank; ++i)
    if (strides[i] < 1 || dilations[i] < 1)
      throw Error(ErrorCode::invalid_model, fmt::format("{}: strides and dilations must be positive, got {} and {}", op,
                                                        strides[i], dilations[i]));
}

int64_t evaluate_pad(const Dim& pad, const SymbolBindings& symbols) {
  const int64_t size = pad.evaluate(symbols);
  if (size > limit || size < -limit) fail_rule("a padding of {} is too large", size);
  return size;
}

Dim window_extent(const Dim& kernel, int64_t dilation) {
  return (kernel - Dim(1)) * Dim(dilation) + Dim(1);
}

Dim pool_size_rounded_up(const Dim& input, const Dim& begin, const Dim& end, const Dim& window, int64_t stride) {
  const Dim all = ceil_div(input + begin + end - window, stride) + Dim(1);
  const Dim starting_inside = ceil_div(input + begin, stride);
  const Dim difference = end - window + Dim(stride);  // decides which one is smaller
  if (const auto high = difference.upper_bound(); high && *high <= 0) return all;
  if (const auto low = difference.lower_bound(); low && *low >= 0) return starting_inside;
  return min(all, starting_inside);
}

void check_output_size(std::string_view op, const Dim& size, const Dim& input, const Dim& window) {
  if (const auto extent = window.as_constant(); extent && *extent > limit)
    throw Error(ErrorCode::invalid_model, fmt::format("{}: a window of {} is too large", op, *extent));
  const auto high = size.upper_bound();
  if (high && *high < 0)
    throw Error(ErrorCode::invalid_model, fmt::format("{}: a window of {} does not fit an input of {} with its padding",
                                                      op, window.str(), input.str()));
}

}  // namespace camshaft::ops
