// Convolution and its transpose, as matrix products over gathered windows.
#include <fmt/format.h>

#include "base/error.h"
#include "ir/ops/contract.h"
#include "ir/ops/shape_rules.h"
#include "ir/ops/spatial.h"

namespace camshaft::ops {

namespace {

// Everything that Conv and ConvTranspose share in their shape rules; returns the channels of the output. `rounding`:
// see takes_rounded().
Dim check_operands(std::string_view op, const InferContext& context, int64_t groups, bool transposed,
                   Rounding rounding = Rounding::none) {
  const int rank = context.rank(0);
  if (rank < 3 || rank > 10)
    throw Error(ErrorCode::invalid_model, fmt::format("{} takes 1 to 8 spatial axes, got rank {}", op, rank));
  if (context.rank(1) != rank)
    throw Error(ErrorCode::invalid_model,
                fmt::format("{} of rank {} has weights of rank {}", op, rank, context.rank(1)));
  const bool numeric = is_floating(context.dtype(0)) || is_integer(context.dtype(0));
  const bool rounded = takes_rounded(rounding, context.dtype(0), context.dtype(1));
  if (!numeric || is_packed(context.dtype(0)) || (context.dtype(1) != context.dtype(0) && !rounded))
    throw Error(ErrorCode::invalid_model, fmt::format("{} takes numbers of one dtype, got {} and {}", op,
                                                      to_string(context.dtype(0)), to_string(context.dtype(1))));
  if (groups < 1) throw Error(ErrorCode::invalid_model, fmt::format("{}: groups must be positive, got {}", op, groups));
  const Dim out = transposed ? context.shape(1)[1] * Dim(groups) : context.shape(1)[0];
  const Dim split = context.shape(1)[0];  // the axis of the weights that the groups divide
  if (split.is_constant() && split.value() % groups != 0)
    throw Error(ErrorCode::invalid_model,
                fmt::format("{}: {} groups do not divide {} channels", op, groups, split.value()));
  if (context.has(2) &&
      (context.rank(2) != 1 || provably_different(context.shape(2)[0], out) || context.dtype(2) != context.dtype(1)))
    throw Error(ErrorCode::invalid_model,
                fmt::format("{}: the bias must be {}[{}], got {}", op, to_string(context.dtype(1)), out.str(),
                            to_string(context.type(2))));
  return out;
}

void check_channels(std::string_view op, const Dim& got, const Dim& wanted) {
  if (provably_different(got, wanted))
    throw Error(ErrorCode::invalid_model,
                fmt::format("{}: the input has {} channels, the weights take {}", op, got.str(), wanted.str()));
}

}  // namespace

std::vector<Inferred> Conv::infer(const InferContext& context) const {
  const Dim channels = check_operands(name, context, groups, false, rounding);
  const Shape &x = context.shape(0), &weights = context.shape(1);
  const SpatialLayout layout(x.size(), channels_last);
  check_window_fields(name, layout.spatial_rank, strides, pads, dilations);
  check_channels(name, x[layout.channel_axis], weights[1] * Dim(groups));
  Shape shape = x;
  shape[layout.channel_axis] = channels;
  for (size_t i = 0; i < layout.spatial_rank; ++i) {
    Dim& size = shape[layout.first_spatial + i];
    const Dim input = size, window = window_extent(weights[2 + i], dilations[i]);
    size = floor_div(input + pads[i] + pads[layout.spatial_rank + i] - window, strides[i]) + Dim(1);
    check_output_size(name, size, input, window);
  }
  return {{{context.dtype(1), std::move(shape)}}};
}

std::vector<Inferred> ConvTranspose::infer(const InferContext& context) const {
  const Dim channels = check_operands(name, context, groups, true);
  const Shape &x = context.shape(0), &weights = context.shape(1);
  const SpatialLayout layout(x.size(), channels_last);
  check_window_fields(name, layout.spatial_rank, strides, pads, dilations);
  if (output_padding.size() != layout.spatial_rank)
    throw Error(ErrorCode::invalid_model, fmt::format("{} over {} spatial axes has {} output paddings", name,
                                                      layout.spatial_rank, output_padding.size()));
  check_channels(name, x[layout.channel_axis], weights[0]);
  Shape shape = x;
  shape[layout.channel_axis] = channels;
  for (size_t i = 0; i < layout.spatial_rank; ++i) {
    Dim& size = shape[layout.first_spatial + i];
    const Dim input = size, window = window_extent(weights[2 + i], dilations[i]);
    size = (input - Dim(1)) * Dim(strides[i]) + output_padding[i] + window - pads[i] - pads[layout.spatial_rank + i];
    check_output_size(name, size, input, window);
  }
  return {{{context.dtype(0), std::move(shape)}}};
}

}  // namespace camshaft::ops
