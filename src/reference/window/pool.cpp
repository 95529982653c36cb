// The reference evaluation of pool.
#include <algorithm>
#include <limits>

#include "base/index_range.h"
#include "base/pieces.h"
#include "ir/ops/reduce.h"
#include "ir/ops/spatial.h"
#include "ir/ops/strides.h"
#include "reference/element_io.h"

namespace camshaft::ops {

namespace {

struct Window {
  IndexRange taps;     // inside the input
  int64_t padded = 0;  // taps inside the input or its padding
};

// The window of each output position along one axis.
std::vector<Window> windows(int64_t outputs, int64_t input, int64_t kernel, int64_t stride, int64_t dilation,
                            int64_t begin, int64_t end) {
  std::vector<Window> list(static_cast<size_t>(outputs));
  for (int64_t o = 0; o < outputs; ++o) {
    Window& w = list[static_cast<size_t>(o)];
    const int64_t start = o * stride - begin;
    w.taps = indices_inside(start, dilation, input, kernel);
    w.padded = indices_inside(start, dilation, input + end, kernel).past;
  }
  return list;
}

template <class T>
class PoolPlane {
 public:
  PoolPlane(const Pool& op, DType stored, const Dims& input, const Dims& output,
            std::vector<std::vector<Window>> windows, Dims begins)
      : op_(op),
        first_(op.kind == PoolKind::average ? T{0} : lowest(stored)),
        output_(output),
        strides_(row_major_strides(input)),
        windows_(std::move(windows)),
        begins_(std::move(begins)),
        at_(output.size()) {}

  // One channel of one image, dense.
  void run(const T* input, T* output) {
    const int64_t total = element_count(output_);
    std::fill(at_.begin(), at_.end(), 0);
    PacedCancellation cancellation;
    for (int64_t i = 0; i < total; ++i) {
      taps_ = 0;
      value_ = first_;
      visit(input, 0, 0);
      if (op_.kind == PoolKind::average) value_ = average(value_);
      output[i] = value_;
      cancellation.did(taps_ + 1);
      for (size_t axis = at_.size(); axis-- > 0;) {
        if (++at_[axis] < output_[axis]) break;
        at_[axis] = 0;
      }
    }
  }

 private:
  // What the maximum of a window without taps is: of integers the lowest number that can be stored.
  static T lowest(DType stored) {
    if constexpr (std::is_floating_point_v<T>)
      return -std::numeric_limits<T>::infinity();
    else
      return std::numeric_limits<T>::min() >> (8 * sizeof(T) - static_cast<size_t>(bit_width(stored)));
  }

  void visit(const T* input, size_t axis, int64_t offset) {
    const Window& w = windows_[axis][static_cast<size_t>(at_[axis])];
    const int64_t start = at_[axis] * op_.strides[axis] - begins_[axis], dilation = op_.dilations[axis];
    for (int64_t tap = w.taps.first; tap < w.taps.past; ++tap) {
      const int64_t at = offset + (start + tap * dilation) * strides_[axis];
      if (axis + 1 < at_.size()) {
        visit(input, axis + 1, at);
        continue;
      }
      const T v = input[at];
      ++taps_;
      if (op_.kind == PoolKind::average) {
        value_ += v;
      } else {
        value_ = v > value_ ? v : value_;  // NaN is passed over, as in the standard's reference
      }
    }
  }

  T average(T sum) const {
    int64_t count = taps_;
    if (op_.count_include_pad) {
      count = 1;
      for (size_t axis = 0; axis < at_.size(); ++axis) count *= windows_[axis][static_cast<size_t>(at_[axis])].padded;
    }
    return count == 0 ? T{0} : sum / static_cast<T>(count);
  }

  const Pool& op_;
  const T first_;
  const Dims output_, strides_;
  const std::vector<std::vector<Window>> windows_;
  const Dims begins_;
  Dims at_;
  T value_ = 0;
  int64_t taps_ = 0;
};

}  // namespace

std::vector<Tensor> Pool::evaluate(const EvalContext& context) const {
  const Tensor& in = context.input(0);
  Tensor out(in.dtype(), context.output_dims(0));
  if (out.size() == 0) return {std::move(out)};
  const SpatialLayout layout(in.dims().size(), channels_last);
  Dims input, output, begins;
  std::vector<std::vector<Window>> lists;
  for (size_t i = 0; i < layout.spatial_rank; ++i) {
    input.push_back(in.dims()[layout.first_spatial + i]);
    output.push_back(out.dims()[layout.first_spatial + i]);
    begins.push_back(evaluate_pad(pads[i], context.bindings));
    lists.push_back(windows(output[i], input[i], kernel[i], strides[i], dilations[i], begins[i],
                            evaluate_pad(pads[layout.spatial_rank + i], context.bindings)));
  }
  const int64_t channels = in.dims()[layout.channel_axis], planes = in.dims()[0] * channels;
  const int64_t in_count = element_count(input), out_count = element_count(output);
  std::byte* target = out.mutable_data();
  with_wide_type(in.dtype(), [&](auto type) {
    using T = decltype(type);
    for_pieces(context.pool, planes, 1, [&](int64_t begin, int64_t end) {
      PoolPlane<T> plane(*this, in.dtype(), input, output, lists, begins);
      std::vector<T> source(static_cast<size_t>(in_count)), result(static_cast<size_t>(out_count));
      for (int64_t p = begin; p < end; ++p) {
        const int64_t image = p / channels, channel = p % channels;
        const int64_t step = channels_last ? channels : 1;
        const auto first = [&](int64_t count) {
          return channels_last ? image * count * channels + channel : p * count;
        };
        load_elements(in.dtype(), in.data(), first(in_count), step, in_count, source.data());
        plane.run(source.data(), result.data());
        store_elements(out.dtype(), target, first(out_count), step, out_count, result.data());
      }
    });
  });
  return {std::move(out)};
}

}  // namespace camshaft::ops
