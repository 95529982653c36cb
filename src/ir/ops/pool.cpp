#include <fmt/format.h>

#include "base/error.h"
#include "ir/ops/reduce.h"
#include "ir/ops/spatial.h"

namespace camshaft::ops {

std::vector<Inferred> Pool::infer(const InferContext& context) const {
  if (context.rank(0) < 3)
    throw Error(ErrorCode::invalid_model, fmt::format("pool takes [n, c, spatial...], got rank {}", context.rank(0)));
  const DType dtype = context.dtype(0);
  if (!is_floating(dtype) && (kind == PoolKind::average || !is_integer(dtype)))
    throw Error(ErrorCode::invalid_model, fmt::format("pool takes floating-point numbers, or integers for the maximum, "
                                                      "got {}",
                                                      to_string(dtype)));
  const SpatialLayout layout(context.shape(0).size(), channels_last);
  check_window_fields(name, layout.spatial_rank, strides, pads, dilations);
  if (kernel.size() != layout.spatial_rank)
    throw Error(ErrorCode::invalid_model,
                fmt::format("pool over {} spatial axes has a kernel of {}", layout.spatial_rank, kernel.size()));
  Shape shape = context.shape(0);
  int64_t taps = 1;
  for (size_t i = 0; i < layout.spatial_rank; ++i) {
    if (kernel[i] >= 1 && __builtin_mul_overflow(taps, kernel[i], &taps))
      throw Error(ErrorCode::invalid_model, "pool: a window of more than 2^63 elements");  // averages count them
    if (kernel[i] < 1) throw Error(ErrorCode::invalid_model, fmt::format("pool: a kernel of size {}", kernel[i]));
    Dim& size = shape[layout.first_spatial + i];
    const Dim input = size, &begin = pads[i], &end = pads[layout.spatial_rank + i];
    const Dim window = window_extent(kernel[i], dilations[i]);
    size = ceil_mode ? pool_size_rounded_up(input, begin, end, window, strides[i])
                     : floor_div(input + begin + end - window, strides[i]) + Dim(1);
    check_output_size(name, size, input, window);
  }
  return {{{dtype, std::move(shape)}}};
}

// Each window has an element of the image: its first and last tap are not both in the padding.
bool Pool::selects() const {
  for (size_t i = 0; i < pads.size(); ++i) {
    const size_t axis = i % kernel.size();
    const auto pad = pads[i].as_constant();
    if (!pad || *pad < 0 || *pad >= kernel[axis] || dilations[axis] != 1) return false;
  }
  return kind == PoolKind::max;
}

}  // namespace camshaft::ops
