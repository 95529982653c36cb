// The reference evaluation of conv and conv_transpose.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/index_range.h"
#include "base/thread_pool.h"
#include "ir/ops/contract.h"
#include "ir/ops/spatial.h"
#include "ir/ops/strides.h"
#include "reference/contract/gemm.h"
#include "reference/element_io.h"

namespace camshaft::ops {

namespace {

// One spatial axis: output position q (element q·out_step + out_first of the output) reads, for each tap, input
// position q·in_step + offset. A convolution has one such axis; a transposed one splits into `stride` phases of them,
// so that no zeros are multiplied.
struct Axis {
  int64_t count = 0;  // output positions
  int64_t in_size = 1, in_step = 1, in_stride = 0;
  int64_t out_first = 0, out_step = 1, out_stride = 0;
  std::vector<int64_t> offsets;       // [tap]
  std::vector<int64_t> weight_index;  // [tap]
  int64_t weight_stride = 0;
};

struct ConvTensors {
  const Tensor& x;
  const Tensor& weights;
  const Tensor* bias;
  std::byte* y;
  int64_t groups = 1, channels_in = 0, channels_out = 0;  // of a group
  int64_t x_image = 0, x_channel = 0, y_image = 0, y_channel = 0;
  int64_t weight_group = 0, weight_out = 0, weight_in = 0;  // strides of the weights
};

// C[out channel, output position] = A[out channel, (tap, in channel)] · B[(tap, in channel), output position]. T is
// double, or uint64_t for integers of any kind: they wrap alike when they are stored.
template <class T>
class ConvProblem final : public GemmProblem<T> {
 public:
  ConvProblem(const ConvTensors& tensors, const std::vector<Axis>& axes, int64_t images) : t_(tensors), axes_(axes) {
    this->batches = images * t_.groups;
    this->m = t_.channels_out;
    this->n = 1;
    Dims taps, counts;
    for (const Axis& axis : axes_) {
      counts.push_back(axis.count);
      this->n *= axis.count;
      taps.push_back(static_cast<int64_t>(axis.offsets.size()));
    }
    taps_ = element_count(taps);
    this->k = taps_ * t_.channels_in;
    this->exact_products = t_.x.dtype() != DType::f64;
    Dims weight_strides;
    for (int64_t tap = 0; tap < taps_; ++tap) {
      int64_t rest = tap, weight = 0;
      std::vector<int64_t> offsets(axes_.size());
      for (size_t i = axes_.size(); i-- > 0;) {
        const auto index = static_cast<size_t>(rest % taps[i]);
        rest /= taps[i];
        offsets[i] = axes_[i].offsets[index];
        weight += axes_[i].weight_index[index] * axes_[i].weight_stride;
      }
      tap_offsets_.push_back(std::move(offsets));
      tap_weights_.push_back(weight);
    }
  }

  void load_a(int64_t batch, int64_t row, int64_t first, int64_t count, T* out) const override {
    const int64_t base = batch % t_.groups * t_.weight_group + row * t_.weight_out;
    for (int64_t at = first; at < first + count;) {
      const int64_t tap = at / t_.channels_in, channel = at % t_.channels_in;
      const int64_t run = std::min(t_.channels_in - channel, first + count - at);
      load_elements(t_.weights.dtype(), t_.weights.data(),
                    base + tap_weights_[static_cast<size_t>(tap)] + channel * t_.weight_in, t_.weight_in, run, out);
      out += run;
      at += run;
    }
  }

  void load_b(int64_t batch, int64_t row, int64_t first, int64_t count, T* out) const override {
    const int64_t group = batch % t_.groups, image = batch / t_.groups;
    const int64_t channel = group * t_.channels_in + row % t_.channels_in;
    const int64_t base = image * t_.x_image + channel * t_.x_channel;
    const std::vector<int64_t>& offsets = tap_offsets_[static_cast<size_t>(row / t_.channels_in)];
    const Axis& last = axes_.back();
    const int64_t shift = offsets.back();
    // Positions of the last axis that read inside the input.
    const IndexRange seen = indices_inside(shift, last.in_step, last.in_size, std::numeric_limits<int64_t>::max());
    for_rows(first, count, [&](const int64_t* at, int64_t from, int64_t length) {
      int64_t source = base;
      bool inside = true;
      for (size_t i = 0; i + 1 < axes_.size(); ++i) {
        const int64_t position = at[i] * axes_[i].in_step + offsets[i];
        inside = inside && position >= 0 && position < axes_[i].in_size;
        if (inside) source += position * axes_[i].in_stride;
      }
      const int64_t begin = inside ? std::clamp(seen.first, from, from + length) : from + length;
      const int64_t end = inside ? std::clamp(seen.past, begin, from + length) : from + length;
      std::fill(out, out + (begin - from), T{0});
      if (begin < end)
        load_elements(t_.x.dtype(), t_.x.data(), source + (begin * last.in_step + shift) * last.in_stride,
                      last.in_step * last.in_stride, end - begin, out + (begin - from));
      std::fill(out + (end - from), out + length, T{0});
      out += length;
    });
  }

  void store(int64_t batch, int64_t row, int64_t first, int64_t count, T* in) const override {
    const int64_t group = batch % t_.groups, image = batch / t_.groups;
    const int64_t channel = group * t_.channels_out + row;
    if (t_.bias) {
      T bias;
      load_elements(t_.bias->dtype(), t_.bias->data(), channel, 1, 1, &bias);
      for (int64_t i = 0; i < count; ++i) in[i] += bias;
    }
    const int64_t base = image * t_.y_image + channel * t_.y_channel;
    for_rows(first, count, [&](const int64_t* at, int64_t from, int64_t length) {
      int64_t target = base;
      for (size_t i = 0; i + 1 < axes_.size(); ++i)
        target += (at[i] * axes_[i].out_step + axes_[i].out_first) * axes_[i].out_stride;
      const Axis& last = axes_.back();
      target += (from * last.out_step + last.out_first) * last.out_stride;
      store_elements(t_.weights.dtype(), t_.y, target, last.out_step * last.out_stride, length, in);
      in += length;
    });
  }

 private:
  // Output positions first … first+count as runs of the last axis: row(positions of the axes, first of the last,
  // length)
  template <class Row>
  void for_rows(int64_t first, int64_t count, Row&& row) const {
    constexpr size_t most = 8;
    int64_t at[most] = {};
    int64_t rest = first;
    for (size_t i = axes_.size(); i-- > 0;) {
      at[i] = rest % axes_[i].count;
      rest /= axes_[i].count;
    }
    const size_t last = axes_.size() - 1;
    while (count > 0) {
      const int64_t length = std::min(count, axes_[last].count - at[last]);
      row(at, at[last], length);
      count -= length;
      at[last] = 0;
      for (size_t i = last; i-- > 0;) {
        if (++at[i] < axes_[i].count) break;
        at[i] = 0;
      }
    }
  }

  const ConvTensors& t_;
  const std::vector<Axis>& axes_;
  int64_t taps_ = 1;
  std::vector<std::vector<int64_t>> tap_offsets_;  // [tap][axis]
  std::vector<int64_t> tap_weights_;               // [tap]
};

// Neighbouring axes that a 1×1 window walks densely are one long axis.
std::vector<Axis> merge(const std::vector<Axis>& axes) {
  const auto plain = [](const Axis& a) {
    return a.offsets.size() == 1 && a.offsets[0] == 0 && a.in_step == 1 && a.out_step == 1 && a.out_first == 0 &&
           a.count == a.in_size;
  };
  std::vector<Axis> out;
  for (const Axis& axis : axes) {
    if (!out.empty() && plain(out.back()) && plain(axis) && out.back().in_stride == axis.in_stride * axis.in_size &&
        out.back().out_stride == axis.out_stride * axis.count) {
      const int64_t outer = out.back().count;
      out.back() = axis;
      out.back().count *= outer;
      out.back().in_size *= outer;
    } else {
      out.push_back(axis);
    }
  }
  return out;
}

ConvTensors describe(const EvalContext& context, Tensor& out, const SpatialLayout& layout, int64_t groups,
                     bool transposed) {
  const Tensor &x = context.input(0), &weights = context.input(1);
  // The shape rule could not compare sizes that are symbols.
  const int64_t channels = x.dims()[layout.channel_axis], out_channels = out.dims()[layout.channel_axis];
  const int64_t wanted = transposed ? weights.dims()[0] : (Dim(weights.dims()[1]) * Dim(groups)).value();
  if (channels != wanted || weights.dims()[0] % groups != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the input has {} channels, the weights {} take {} in {} groups", channels,
                            to_string(weights.dims()), wanted, groups));
  if (context.has(2) && context.input(2).size() != out_channels)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the bias has {} elements for {} channels", context.input(2).size(), out_channels));
  ConvTensors t{x, weights, context.has(2) ? &context.input(2) : nullptr, out.mutable_data()};
  const Dims xs = row_major_strides(x.dims()), ys = row_major_strides(out.dims()),
             ws = row_major_strides(weights.dims());
  t.groups = groups;
  t.channels_in = transposed ? weights.dims()[0] / groups : weights.dims()[1];
  t.channels_out = transposed ? weights.dims()[1] : weights.dims()[0] / groups;
  if (x.dims()[layout.channel_axis] != t.channels_in * groups || weights.dims()[0] % groups != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a convolution of {} with weights {} in {} groups: the channels do not fit",
                            to_string(x.dims()), to_string(weights.dims()), groups));
  t.x_image = xs[0];
  t.y_image = ys[0];
  t.x_channel = xs[layout.channel_axis];
  t.y_channel = ys[layout.channel_axis];
  t.weight_out = transposed ? ws[1] : ws[0];
  t.weight_in = transposed ? ws[0] : ws[1];
  t.weight_group = ws[0] * (weights.dims()[0] / groups);
  return t;
}

void solve_convolution(const ConvTensors& tensors, const std::vector<Axis>& axes, int64_t images, ThreadPool& pool) {
  if (is_floating(tensors.x.dtype())) {
    solve(ConvProblem<double>(tensors, axes, images), pool);
  } else {
    solve(ConvProblem<uint64_t>(tensors, axes, images), pool);
  }
}

// Weights without channels have no taps, however large their windows are.
int64_t taps_of(const ConvTensors& tensors, const Tensor& weights, size_t axis) {
  return tensors.channels_in == 0 ? 0 : weights.dims()[2 + axis];
}

// The fields of each axis that do not depend on the kind of convolution.
Axis base_axis(const Tensor& x, const Tensor& weights, const Tensor& out, const SpatialLayout& layout, size_t i) {
  const size_t at = layout.first_spatial + i;
  Axis axis;
  axis.in_size = x.dims()[at];
  axis.in_stride = row_major_strides(x.dims())[at];
  axis.out_stride = row_major_strides(out.dims())[at];
  axis.weight_stride = row_major_strides(weights.dims())[2 + i];
  return axis;
}

}  // namespace

std::vector<Tensor> Conv::evaluate(const EvalContext& context) const {
  const Tensor &x = context.input(0), &weights = context.input(1);
  const SpatialLayout layout(x.dims().size(), channels_last);
  Tensor out(weights.dtype(), context.output_dims(0));  // x may be rounded (ops::takes_rounded())
  const ConvTensors tensors = describe(context, out, layout, groups, false);
  if (out.size() == 0) return {std::move(out)};
  std::vector<Axis> axes;
  for (size_t i = 0; i < layout.spatial_rank; ++i) {
    Axis axis = base_axis(x, weights, out, layout, i);
    axis.count = out.dims()[layout.first_spatial + i];
    axis.in_step = strides[i];
    const int64_t pad = evaluate_pad(pads[i], context.bindings);
    for (int64_t tap = 0; tap < taps_of(tensors, weights, i); ++tap) {
      axis.offsets.push_back(tap * dilations[i] - pad);
      axis.weight_index.push_back(tap);
    }
    axes.push_back(std::move(axis));
  }
  axes = merge(axes);
  solve_convolution(tensors, axes, x.dims()[0], context.pool);
  return {std::move(out)};
}

std::vector<Tensor> ConvTranspose::evaluate(const EvalContext& context) const {
  const Tensor &x = context.input(0), &weights = context.input(1);
  const SpatialLayout layout(x.dims().size(), channels_last);
  Tensor out(x.dtype(), context.output_dims(0));
  const ConvTensors tensors = describe(context, out, layout, groups, true);
  if (out.size() == 0) return {std::move(out)};
  // Output o takes input (o + pad - tap·dilation) / stride where that divides: the taps depend on o modulo the stride.
  std::vector<std::vector<Axis>> phases;  // of each axis, those with taps
  std::vector<Axis> all;                  // outputs, and no taps
  Dims counts;
  bool have_all_taps = true;
  for (size_t i = 0; i < layout.spatial_rank; ++i) {
    const int64_t size = out.dims()[layout.first_spatial + i], pad = evaluate_pad(pads[i], context.bindings);
    all.push_back(base_axis(x, weights, out, layout, i));
    all.back().count = size;
    std::map<int64_t, Axis> of_remainder;
    for (int64_t tap = 0; tap < taps_of(tensors, weights, i); ++tap) {
      const int64_t distance = pad - tap * dilations[i];
      const int64_t remainder = ((-distance) % strides[i] + strides[i]) % strides[i];
      if (remainder >= size) continue;
      Axis& axis = of_remainder.try_emplace(remainder, all.back()).first->second;
      axis.out_first = remainder;
      axis.out_step = strides[i];
      axis.count = (size - 1 - remainder) / strides[i] + 1;
      axis.offsets.push_back((remainder + distance) / strides[i]);
      axis.weight_index.push_back(tap);
    }
    have_all_taps &= static_cast<int64_t>(of_remainder.size()) == std::min(strides[i], size);
    auto& of_axis = phases.emplace_back();
    for (auto& [remainder, axis] : of_remainder) of_axis.push_back(std::move(axis));
    counts.push_back(static_cast<int64_t>(of_axis.size()));
  }
  // Outputs without taps are the bias: with a stride of 5000 and a kernel of 2 nearly all 25 million phases, of which
  // each took a microsecond.
  if (tensors.bias && !have_all_taps) solve_convolution(tensors, all, x.dims()[0], context.pool);
  for (int64_t phase = 0; phase < element_count(counts); ++phase) {
    int64_t rest = phase;
    std::vector<Axis> axes(layout.spatial_rank);
    for (size_t i = layout.spatial_rank; i-- > 0; rest /= counts[i])
      axes[i] = phases[i][static_cast<size_t>(rest % counts[i])];
    solve_convolution(tensors, axes, x.dims()[0], context.pool);
  }
  return {std::move(out)};
}

}  // namespace camshaft::ops
