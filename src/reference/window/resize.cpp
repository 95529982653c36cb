// The reference evaluation of resize.
#include "reference/window/resize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/memory_limit.h"
#include "base/pieces.h"
#include "base/thread_pool.h"
#include "ir/ops/resize.h"
#include "ir/ops/shape_rules.h"
#include "ir/ops/strides.h"
#include "reference/element_io.h"
#include "reference/elements.h"
#include "reference/move/mapped_copy.h"

namespace camshaft::ops {

namespace {

// ResizeAxis with weights of full precision, for f64 and so that the judge is finer than what it judges.

struct Geometry {
  double scale;         // output size / input size
  double output_width;  // fractional when a scale was given: ONNX's reference aligns corners to it
};

Geometry geometry(const Resize& op, size_t i, int64_t input_size, int64_t output_size) {
  const double in = static_cast<double>(input_size), out = static_cast<double>(output_size);
  const double scale = i < op.scales.size() ? op.scales[i] : 0;
  if (scale == 0) return {out / in, out};
  // The lower limit also bounds the taps of an antialiasing filter by the input size.
  if (!(std::abs(scale * in - out) <= 1 && scale * in > 0.49))
    fail_rule("axis {}: a scale of {} does not make {} elements out of {}", op.axes[i], scale, output_size, input_size);
  return {scale, scale * in};
}

// The source coordinate of output element `at`, as the specification of ONNX's Resize-19 gives it.
double source_coordinate(const Resize& op, size_t i, const Geometry& g, int64_t input_size, int64_t output_size,
                         double at) {
  const double in = static_cast<double>(input_size), out = static_cast<double>(output_size);
  const double half_pixel = (at + 0.5) / g.scale - 0.5;
  switch (op.coordinate) {
    case ResizeCoordinate::half_pixel:
      return half_pixel;
    case ResizeCoordinate::half_pixel_symmetric:
      return in / 2 * (1 - out / g.output_width) + half_pixel;
    case ResizeCoordinate::pytorch_half_pixel:
      return output_size > 1 ? half_pixel : 0;
    case ResizeCoordinate::align_corners:
      return output_size > 1 ? at * (in - 1) / (g.output_width - 1) : 0;
    case ResizeCoordinate::asymmetric:
      return at / g.scale;
    case ResizeCoordinate::tf_half_pixel_for_nn:  // of operator sets 11 and 12
      return (at + 0.5) / g.scale;
    case ResizeCoordinate::tf_crop_and_resize: {
      const double start = op.roi[i], end = op.roi[op.axes.size() + i];
      if (output_size <= 1) return (start + end) / 2 * (in - 1);
      return start * (in - 1) + at * (end - start) * (in - 1) / (g.output_width - 1);
    }
  }
  return 0;
}

double cubic(double a, double x) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

int64_t nearest_index(ResizeNearest mode, double scale, double x) {
  if (mode == ResizeNearest::simple) mode = scale < 1 ? ResizeNearest::ceil : ResizeNearest::floor;
  switch (mode) {
    case ResizeNearest::round_prefer_floor:
      return static_cast<int64_t>(std::ceil(x - 0.5));
    case ResizeNearest::round_prefer_ceil:
      return static_cast<int64_t>(std::floor(x + 0.5));
    case ResizeNearest::floor:
      return static_cast<int64_t>(std::floor(x));
    case ResizeNearest::ceil:
    case ResizeNearest::simple:
      break;
  }
  return static_cast<int64_t>(std::ceil(x));
}

}  // namespace

ResizeAxis resize_axis(const Resize& op, size_t i, int64_t input_size, int64_t output_size) {
  ResizeAxis axis;
  if (output_size <= 0) return axis;
  if (input_size <= 0) fail_rule("axis {} has no element to resize to {}", op.axes[i], output_size);
  const Geometry g = geometry(op, i, input_size, output_size);
  // Antialiasing stretches the filter when it shrinks: `reach` source elements to each side instead of 1 or 2.
  const double squeeze = op.antialias ? std::min(g.scale, 1.0) : 1.0;
  int64_t reach = 0;
  if (op.mode != ResizeMode::nearest)
    reach = static_cast<int64_t>(-std::floor((op.mode == ResizeMode::linear ? -1 : -2) / squeeze));
  axis.taps = std::max<int64_t>(1, 2 * reach);
  check_fits_memory(DType::f64, {output_size, axis.taps});
  axis.indices.reserve(static_cast<size_t>(output_size * axis.taps));
  axis.weights.reserve(axis.indices.capacity());
  PacedCancellation cancellation;
  for (int64_t o = 0; o < output_size; ++o) {
    cancellation.did(axis.taps);
    double x = source_coordinate(op, i, g, input_size, output_size, static_cast<double>(o));
    const size_t at = axis.indices.size();
    axis.indices.resize(at + static_cast<size_t>(axis.taps), -1);
    axis.weights.resize(axis.indices.size(), 0);
    const auto clamp = [&](double v) { return std::clamp(v, -1e15, 1e15); };  // any roi: the cast must be defined
    if (op.coordinate == ResizeCoordinate::tf_crop_and_resize &&
        !(x >= 0 && x <= static_cast<double>(input_size - 1))) {
      axis.weights[at] = 1;  // of the extrapolation value
      std::fill(axis.weights.begin() + static_cast<int64_t>(at) + 1, axis.weights.end(), 0.0);
      continue;
    }
    if (std::isnan(x)) x = 0;  // 0 / 0, where a scale aligns the corners of one element
    if (op.mode == ResizeMode::nearest) {
      axis.indices[at] = std::clamp<int64_t>(nearest_index(op.nearest, g.scale, clamp(x)), 0, input_size - 1);
      axis.weights[at] = 1;
      continue;
    }
    // The window lies around (base, base + 1]: at a whole coordinate the element itself is the right one of the two.
    const auto base = static_cast<int64_t>(std::ceil(clamp(x))) - 1;
    double total = 0;
    for (int64_t t = 0; t < axis.taps; ++t) {
      const int64_t index = base + 1 - reach + t;
      const double distance = (static_cast<double>(index) - x) * squeeze;
      double weight =
          op.mode == ResizeMode::linear ? std::max(0.0, 1 - std::abs(distance)) : cubic(op.cubic_coefficient, distance);
      if (op.exclude_outside && (index < 0 || index >= input_size)) weight = 0;
      axis.indices[at + static_cast<size_t>(t)] = std::clamp<int64_t>(index, 0, input_size - 1);
      axis.weights[at + static_cast<size_t>(t)] = weight;
      total += weight;
    }
    if ((op.antialias || op.exclude_outside) && total != 0)
      for (size_t t = at; t < axis.weights.size(); ++t) axis.weights[t] /= total;
  }
  return axis;
}

namespace {

// One axis of [outer, size, inner] at a time: interpolation separates.
Tensor interpolate(const Tensor& x, const ResizeAxis& axis, int64_t outer, int64_t size, int64_t inner, double outside,
                   ThreadPool& pool) {
  const auto out_size = static_cast<int64_t>(axis.indices.size()) / axis.taps;
  // One axis may grow before another shrinks: what lies between can be larger than image and result.
  Tensor out = Tensor::uncleared(DType::f64, {outer, out_size, inner});
  if (out.size() == 0) return out;
  auto* const sums = out.as_mutable<double>();
  for_pieces(pool, outer * out_size, 4096 / inner, [&](int64_t begin, int64_t end) {
    PacedCancellation cancellation;
    for (int64_t row = begin; row < end; ++row) {
      double* to = sums + row * inner;
      std::fill_n(to, inner, 0.0);
      for (int64_t t = 0; t < axis.taps; ++t) {
        const auto at = static_cast<size_t>(row % out_size * axis.taps + t);
        const double weight = axis.weights[at];
        if (weight == 0) continue;
        cancellation.did(inner);
        if (axis.indices[at] < 0) {
          for (int64_t k = 0; k < inner; ++k) to[k] += weight * outside;
          continue;
        }
        const double* from = x.as<double>() + (row / out_size * size + axis.indices[at]) * inner;
        for (int64_t k = 0; k < inner; ++k) to[k] += weight * from[k];
      }
    }
  });
  return out;
}

}  // namespace

std::vector<Tensor> Resize::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  Dims dims = x.dims();
  for (size_t i = 0; i < axes.size(); ++i) dims.at(static_cast<size_t>(axes[i])) = context.evaluate(sizes[i]);
  // Refuses negative sizes, and those whose tables alone would fill the memory.
  if (static_cast<uint64_t>(element_count(dims)) > largest_buffer() / sizeof(double))
    throw Error(ErrorCode::out_of_memory,
                fmt::format("out of memory: a result of shape {} is more than this machine holds", to_string(dims)));
  // An empty result may have an axis of any length, whose table would not be small.
  if (element_count(dims) == 0) return {Tensor(x.dtype(), dims)};
  std::vector<ResizeAxis> resized;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    resized.push_back(resize_axis(*this, i, x.dims()[axis], dims[axis]));
  }
  if (mode == ResizeMode::nearest) {
    std::vector<std::vector<int64_t>> maps;
    for (const int64_t size : x.dims()) {
      maps.emplace_back(static_cast<size_t>(size));
      std::iota(maps.back().begin(), maps.back().end(), 0);
    }
    for (size_t i = 0; i < axes.size(); ++i) maps[static_cast<size_t>(axes[i])] = std::move(resized[i].indices);
    Tensor outside(x.dtype(), {1});
    if (x.dtype() != DType::string) store_elements(x.dtype(), outside.mutable_data(), 0, 1, 1, &extrapolation_value);
    return {copy_mapped(x, maps, outside, context.pool)};
  }
  Tensor values = Tensor::uncleared(DType::f64, x.dims());
  auto* const wide = values.as_mutable<double>();
  const int64_t pieces = 1 << 14;  // even, so that no two threads share a byte of 4-bit elements
  for_pieces(context.pool, x.size(), pieces, [&](int64_t begin, int64_t end) {
    load_elements(x.dtype(), x.data(), begin, 1, end - begin, wide + begin);
  });
  Dims current = x.dims();
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    values = interpolate(values, resized[i], product(current, 0, axis), current[axis],
                         product(current, axis + 1, current.size()), extrapolation_value, context.pool);
    current[axis] = dims[axis];
  }
  Tensor out(x.dtype(), dims);
  std::byte* to = out.mutable_data();
  const bool whole = !is_floating(x.dtype());
  for_pieces(context.pool, out.size(), pieces, [&](int64_t begin, int64_t end) {
    const double* from = values.as<double>() + begin;
    std::vector<double> rounded;
    if (whole) {  // half to even, as ONNX's reference rounds integers
      rounded.assign(from, from + (end - begin));
      for (double& v : rounded) v = std::nearbyint(v);
      from = rounded.data();
    }
    store_elements(x.dtype(), to, begin, 1, end - begin, from);
  });
  return {out};
}

}  // namespace camshaft::ops
