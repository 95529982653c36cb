#include "ops/spatial.h"

#include <fmt/format.h>

#include "camshaft/error.h"

namespace camshaft::ops {

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
  for (size_t i = 0; i < spatial_rank; ++i)
    if (strides[i] < 1 || dilations[i] < 1)
      throw Error(ErrorCode::invalid_model, fmt::format("{}: strides and dilations must be positive, got {} and {}", op,
                                                        strides[i], dilations[i]));
}

Dim window_extent(const Dim& kernel, int64_t dilation) {
  return (kernel - Dim(1)) * Dim(dilation) + Dim(1);
}

void check_output_size(std::string_view op, const Dim& size, const Dim& input, const Dim& window) {
  const auto high = size.upper_bound();
  if (high && *high < 0)
    throw Error(ErrorCode::invalid_model, fmt::format("{}: a window of {} does not fit an input of {} with its padding",
                                                      op, window.str(), input.str()));
}

}  // namespace camshaft::ops
