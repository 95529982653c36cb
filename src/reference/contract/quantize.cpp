// The reference evaluation of Quantize and Dequantize.
#include "ir/ops/quantize.h"

#include <algorithm>
#include <cmath>

#include "base/divide_up.h"
#include "base/pieces.h"
#include "ir/ops/broadcast.h"
#include "ir/ops/shape_rules.h"
#include "ir/ops/strides.h"
#include "reference/element_io.h"

namespace camshaft::ops {

namespace {

constexpr int64_t quantized_chunk = 1024;

// Scale and zero point of each element of x.
class Parameters {
 public:
  Parameters(const EvalContext& context, int64_t axis, int64_t block)
      : scale_(context.input(1)), zero_(context.has(2) ? context.input(2) : Tensor()) {
    const Dims& x = context.input(0).dims();
    dense_ = row_major_strides(x);
    sizes_ = x;
    axis_ = static_cast<size_t>(axis);
    layouts_[0] = layout(scale_, block);
    if (zero_.defined()) layouts_[1] = layout(zero_, block);
  }

  // Of the elements [first, first + count) of x.
  void scales(int64_t first, int64_t count, double* out) const { load(scale_, layouts_[0], first, count, out); }
  // Leaves `out` as it is when there are none.
  void zeros(int64_t first, int64_t count, double* out) const {
    if (zero_.defined()) load(zero_, layouts_[1], first, count, out);
  }

 private:
  struct Layout {
    Dims strides;       // an axis of x
    int64_t block = 1;  // elements along axis_ to a parameter
  };

  Layout layout(const Tensor& parameter, int64_t block) const {
    Layout made{Dims(sizes_.size(), 0), 1};
    const Dims& dims = parameter.dims();
    if (parameter.size() == 1) return made;
    const bool per_axis = dims.size() == 1 && (sizes_.size() > 1 || block == 0);
    if (!per_axis && dims.size() != sizes_.size()) misfit(dims);
    if (per_axis) {
      if (dims[0] != sizes_[axis_]) misfit(dims);
      made.strides[axis_] = 1;
    } else if (dims[axis_] != 1 && dims[axis_] != sizes_[axis_]) {
      if (block == 0 || dims[axis_] != divide_up(sizes_[axis_], block)) misfit(dims);
      made.block = block;
      Dims spread = dims;
      spread[axis_] = sizes_[axis_];
      made.strides = broadcast_strides(spread, sizes_);
      const Dims own = row_major_strides(dims);
      for (size_t i = 0; i < own.size(); ++i)
        if (made.strides[i] != 0) made.strides[i] = own[i];
    } else {
      made.strides = broadcast_strides(dims, sizes_);
    }
    return made;
  }

  // Where sizes are expressions, the shape rule could not tell.
  [[noreturn]] void misfit(const Dims& dims) const {
    fail_rule("a scale or zero point of {} does not fit an input of {} along axis {}", to_string(dims),
              to_string(sizes_), axis_);
  }

  void load(const Tensor& parameter, const Layout& layout, int64_t first, int64_t count, double* out) const {
    if (parameter.size() == 1) return load_elements(parameter.dtype(), parameter.data(), 0, 0, count, out);
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = 0;
      for (size_t d = 0; d < sizes_.size(); ++d) {
        if (layout.strides[d] == 0) continue;
        const int64_t index = (first + i) / dense_[d] % sizes_[d];
        at += (d == axis_ ? index / layout.block : index) * layout.strides[d];
      }
      load_elements(parameter.dtype(), parameter.data(), at, 1, 1, out + i);
    }
  }

  const Tensor scale_, zero_;
  Dims dense_, sizes_;
  size_t axis_ = 0;
  Layout layouts_[2];
};

// Runs over x in pieces that start at whole bytes of packed elements.
template <class Body>
void for_chunks(const EvalContext& context, int64_t size, Body&& body) {
  for_pieces(context.pool, size, quantized_chunk, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += quantized_chunk)
      body(first, std::min(quantized_chunk, end - first));
  });
}

double to_f32(double value) {
  return static_cast<double>(static_cast<float>(value));
}

// Each rounded to `dtype`, in place.
void round_to(DType dtype, int64_t count, double* values) {
  if (dtype == DType::f64) return;
  std::vector<std::byte> stored(byte_size(dtype, count));
  store_elements(dtype, stored.data(), 0, 1, count, values);
  load_elements(dtype, stored.data(), 0, 1, count, values);
}

}  // namespace

std::vector<Tensor> Quantize::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const Parameters parameters(context, axis, block);
  Tensor out(dtype, x.dims());
  std::byte* target = out.mutable_data();
  const bool rounds = is_integer(dtype);
  for_chunks(context, x.size(), [&](int64_t first, int64_t count) {
    std::vector<double> values(quantized_chunk), scales(quantized_chunk), zeros(quantized_chunk, 0);
    load_elements(x.dtype(), x.data(), first, 1, count, values.data());
    parameters.scales(first, count, scales.data());
    parameters.zeros(first, count, zeros.data());
    round_to(precision, count, values.data());
    round_to(precision, count, scales.data());
    for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] /= scales[static_cast<size_t>(i)];
    round_to(precision, count, values.data());
    const StepRange range = rounds ? step_range(dtype) : StepRange{};
    for (int64_t i = 0; i < count; ++i) {
      double& value = values[static_cast<size_t>(i)];
      if (rounds) value = std::nearbyint(value);
      value = to_f32(value);
      if (context.has(2)) value = to_f32(value + zeros[static_cast<size_t>(i)]);  // -0 keeps its sign without one
      if (rounds) value = std::isnan(value) ? 0 : std::clamp(value, range.lowest, range.highest);
    }
    store_elements(dtype, target, first, 1, count, values.data(), saturate);
  });
  return {std::move(out)};
}

std::vector<Tensor> Dequantize::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const Parameters parameters(context, axis, block);
  Tensor out(dtype, x.dims());
  std::byte* target = out.mutable_data();
  for_chunks(context, x.size(), [&](int64_t first, int64_t count) {
    std::vector<double> values(quantized_chunk), scales(quantized_chunk), zeros(quantized_chunk, 0);
    load_elements(x.dtype(), x.data(), first, 1, count, values.data());
    parameters.scales(first, count, scales.data());
    parameters.zeros(first, count, zeros.data());
    for (int64_t i = 0; i < count; ++i) {
      double difference = values[static_cast<size_t>(i)] - zeros[static_cast<size_t>(i)];
      // Of i32 the difference wraps as integers do; doubles hold it exactly.
      if (x.dtype() == DType::i32)
        difference = static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(difference))));
      values[static_cast<size_t>(i)] = to_f32(to_f32(difference) * to_f32(scales[static_cast<size_t>(i)]));
    }
    store_elements(dtype, target, first, 1, count, values.data());
  });
  return {std::move(out)};
}

}  // namespace camshaft::ops
