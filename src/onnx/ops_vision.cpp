// Operators that sample images: regions of interest, grids, deformable convolution, unpooling.
#include <fmt/format.h>

#include <string>

#include "ir/limits.h"
#include "ir/ops/contract.h"
#include "ir/ops/dynamic.h"
#include "ir/ops/generate.h"
#include "ir/ops/index.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/sample.h"
#include "ir/ops/window_ops.h"
#include "onnx/attention.h"
#include "onnx/converters.h"
#include "onnx/generators.h"
#include "onnx/grid_sample.h"
#include "onnx/spatial.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

Values roi_align(ConvertContext& c) {
  ops::RoiAlign op;
  const std::string mode = c.string_attribute("mode", "avg");
  if (mode != "avg" && mode != "max") c.invalid(fmt::format("mode '{}' is unknown", mode));
  const std::string transformation =
      c.opset() < 16 ? "output_half_pixel" : c.string_attribute("coordinate_transformation_mode", "half_pixel");
  if (transformation != "half_pixel" && transformation != "output_half_pixel")
    c.invalid(fmt::format("coordinate_transformation_mode '{}' is unknown", transformation));
  op.maximum = mode == "max";
  op.half_pixel = transformation == "half_pixel";
  op.height = c.int_attribute("output_height", 1);
  op.width = c.int_attribute("output_width", 1);
  op.sampling_ratio = c.int_attribute("sampling_ratio", 0);
  op.spatial_scale = c.float_attribute("spatial_scale", 1);
  return c.result(op, {c.input(0), c.input(1), c.input(2)});
}

Values max_roi_pool(ConvertContext& c) {
  const auto shape = c.ints_attribute("pooled_shape");
  if (!shape || shape->size() != 2) c.invalid("attribute 'pooled_shape' must have two numbers");
  return c.result(ops::MaxRoiPool{(*shape)[0], (*shape)[1], c.float_attribute("spatial_scale", 1)},
                  {c.input(0), c.input(1)});
}

/// GridSample of the nearest elements where those cannot be computed with: the numbers of the pixels are sampled.
Values picked(ConvertContext& c, const ops::GridSample& op) {
  const ValueId x = c.input(0), grid = c.input(1);
  const Shape shape = c.shape(x);
  if (shape.size() < 3) c.invalid(fmt::format("the input has {} axes, at least 3 are needed", shape.size()));
  const Dim plane = product(shape, 2, c.rank(x));
  // Number 0 is what lies outside: the empty string.
  const ValueId all = c.add(ops::DimsTensor{{plane + 1}, DType::i64, true}, {});
  const ValueId one = c.scalar(DType::i64, 1);
  Shape image = shape;
  image[0] = image[1] = 1;
  const ValueId numbers = c.reshape(c.add(ops::Range{}, {one, all, one}), image);
  image[0] = shape[0];
  const ValueId found = c.add(op, {c.add(ops::Expand{image}, {numbers}), grid});
  const Shape sampled = c.shape(found);
  const Dim points = product(sampled, 2, c.rank(found));
  const ValueId index =
      c.add(ops::Expand{{shape[0], shape[1], points}}, {c.reshape(found, {sampled[0], Dim(1), points})});
  const ValueId outside =
      c.add(ops::Expand{{shape[0], shape[1], Dim(1)}}, {c.add_constant(Tensor(c.dtype(x), {1, 1, 1}))});
  const ValueId elements = c.add(ops::Concat{2}, {outside, c.reshape(x, {shape[0], shape[1], plane})});
  Shape to = sampled;
  to[1] = shape[1];
  return c.result(ops::Reshape{std::move(to)}, {c.add(ops::GatherElements{2}, {elements, index})});
}

// The same as a sum over the axes, of `centres` at all pixels, the last axis first, which are constants as a rule: of a
// product with three columns or four finding its rows is most of the time.
ValueId grid_of_known_size(ConvertContext& c, ValueId theta, const Values& centres, const Shape& spatial) {
  const auto rank = static_cast<int64_t>(centres.size());
  const auto column = [&](int64_t j) {
    return c.reshape(slice_axis(c, theta, 2, j, 1), {c.dim(theta, 0), c.dim(theta, 1), 1});
  };
  ValueId sum = column(rank);
  for (int64_t j = rank; j-- > 0;) {
    const ValueId centre = c.reshape(centres[static_cast<size_t>(j)], {1, 1, product(spatial)});
    sum = c.add(F::add, {c.add(F::mul, {centre, column(j)}), sum});
  }
  Shape shape{c.dim(theta, 0)};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  shape.push_back(c.dim(theta, 1));
  return c.reshape(c.add(ops::Transpose{{0, 2, 1}}, {sum}), std::move(shape));
}

// theta times the homogeneous coordinates of all pixels' centres, the last axis first.
Values affine_grid(ConvertContext& c) {
  const ValueId theta = c.input(0);
  const DType dtype = c.dtype(theta);
  const ValueId size = c.input(1);
  if (c.rank(size) != 1) c.invalid(fmt::format("the size has {} axes, not 1", c.rank(size)));
  const int64_t count = c.static_size(c.dim(size, 0), "the number of axes");
  if (count != 4 && count != 5) c.invalid(fmt::format("a size of {} numbers, not 4 or 5", count));
  if (c.rank(theta) != 3) c.invalid(fmt::format("theta has {} axes, not 3", c.rank(theta)));
  const bool align = c.int_attribute("align_corners", 0) != 0;
  const auto rank = static_cast<size_t>(count - 2);
  Shape spatial;
  const auto known = c.content(size);
  const Dim columns_needed(count - 1);
  if (known && c.dim(theta, 2).is_constant() && !(c.dim(theta, 2) == columns_needed))
    c.invalid(fmt::format("theta has {} columns for {} axes", c.dim(theta, 2).value(), rank));
  for (size_t i = 0; i < rank; ++i) spatial.push_back(known ? (*known)[2 + i] : c.fresh(0, i));
  Shape full = spatial;
  full.emplace_back(1);
  const ValueId one = c.scalar(dtype, 1);
  ValueId ones = no_value, sizes = no_value;
  if (!known) {
    sizes = c.add(ops::Slice{{0}, {2}, {Dim(count - 2)}, {1}}, {c.cast(size, DType::i64)});
    // It has the name of the output, after which its sizes are named.
    ones = c.reshape(c.result_at(0, ops::Expand{spatial}, {one, sizes}), full);
  }
  Values columns;
  for (size_t i = rank; i-- > 0;) {
    const auto axis = static_cast<int64_t>(i);
    ValueId extent = no_value, index = no_value;
    if (known) {
      Shape along(rank + 1, Dim(1));
      along[i] = spatial[i];
      extent = c.add(ops::DimsTensor{{spatial[i]}, DType::i64, true}, {});
      index = c.reshape(c.cast(iota(c, spatial[i]), dtype), along);
    } else {  // ones added up: they are what the sizes are known from
      extent = c.reshape(c.add(ops::Slice{{0}, {axis}, {1}, {1}}, {sizes}), {});
      const ValueId at = c.add_constant(Tensor::of<int64_t>(DType::i64, {}, {axis}));
      index = c.add(ops::Cumulative{ops::CumulativeKind::sum, true, false}, {ones, at});
    }
    extent = c.cast(extent, dtype);
    const ValueId doubled = c.add(F::mul, {index, c.scalar(dtype, 2)});
    ValueId position = no_value;
    if (align) {  // a single position is in the middle, as in PyTorch: the standard does not say
      const ValueId divided = c.add(F::div, {doubled, c.add(F::sub, {extent, one})});
      position = c.add(F::select, {c.add(F::equal, {extent, one}), one, divided});
    } else {
      position = c.add(F::div, {c.add(F::add, {doubled, one}), extent});
    }
    columns.push_back(c.add(ops::Expand{full}, {c.add(F::sub, {position, one})}));
  }
  if (known) return {grid_of_known_size(c, theta, columns, spatial)};
  columns.push_back(ones);
  const ValueId base = c.add(ops::Concat{static_cast<int64_t>(rank)}, columns);
  const ValueId flat = c.reshape(base, {product(spatial), Dim(static_cast<int64_t>(rank) + 1)});
  const ValueId grid = c.add(ops::MatMul{false, true}, {flat, theta});
  Shape shape{c.dim(theta, 0)};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  shape.push_back(c.dim(theta, 1));
  return {c.reshape(grid, std::move(shape))};
}

Values deform_conv(ConvertContext& c) {
  const ValueId x = c.input(0), w = c.input(1);
  if (c.rank(x) != 4 || c.rank(w) != 4)
    c.unsupported(fmt::format("{} spatial axes; images of two are supported", c.rank(x) - 2));
  std::optional<std::vector<int64_t>> kernel;
  if (c.dim(w, 2).is_constant() && c.dim(w, 3).is_constant()) kernel = {c.dim(w, 2).value(), c.dim(w, 3).value()};
  const Window window = read_window(c, x, kernel);
  const ops::DeformConv op{window.strides, window.dilations, window.pads, c.int_attribute("group", 1),
                           c.int_attribute("offset_group", 1)};
  return c.result(op, {x, w, c.input(2), c.input_or_none(3), c.input_or_none(4)});
}

// Zeros with the values scattered to their indices in the shape that the window gives; a larger shape asked for gets
// zeros behind.
Values max_unpool(ConvertContext& c) {
  const ValueId x = c.input(0), indices = c.input(1);
  const Window window = read_window(c, x);
  const auto rank = static_cast<size_t>(c.rank(x)), spatial = rank - 2;
  Shape shape = c.shape(x);
  for (size_t i = 0; i < spatial; ++i)
    shape[2 + i] = (shape[2 + i] - Dim(1)) * Dim(window.strides[i]) - window.pads[i] - window.pads[spatial + i] +
                   Dim(window.kernel[i]);
  const Dim total = product(shape), given = product(c.shape(x));
  const ValueId zeros = c.add(ops::Expand{{total}}, {c.reshape(c.scalar(c.dtype(x), 0), {1})});
  const ValueId flat = c.add(ops::ScatterElements{}, {zeros, c.reshape(indices, {given}), c.reshape(x, {given})});
  const ValueId unpooled = c.reshape(flat, shape);
  if (!c.has(2)) return {unpooled};
  const auto wanted = c.content(c.input(2));
  if (!wanted) {
    const ValueId have = c.add(ops::ShapeOf{0, static_cast<int64_t>(rank)}, {unpooled});
    const ValueId ends = c.add(F::sub, {c.cast(c.input(2), DType::i64), have});
    const ValueId begins = c.add_constant(Tensor::from_ints(std::vector<int64_t>(rank, 0)));
    return c.result(ops::DynamicPad{}, {unpooled, c.add(ops::Concat{0}, {begins, ends})});
  }
  if (wanted->size() != rank)
    c.invalid(fmt::format("an output shape of {} axes for an input of {}", wanted->size(), rank));
  Shape pads(2 * rank, Dim(0));
  for (size_t i = 0; i < rank; ++i) pads[rank + i] = (*wanted)[i] - shape[i];
  return c.result(ops::Pad{ops::PadMode::constant, std::move(pads)}, {unpooled});
}

Values col2im(ConvertContext& c) {
  const ValueId image = c.input(1);
  if (c.rank(image) != 1) c.invalid(fmt::format("the image's shape has {} axes, not 1", c.rank(image)));
  const int64_t axes = c.static_size(c.dim(image, 0), "the number of the image's axes");
  if (axes > most_model_axes)
    c.invalid(fmt::format("the image would have {} axes; at most {} can be", axes, most_model_axes));
  const auto rank = static_cast<size_t>(axes);
  ops::Col2Im op{positive_ints(c, "strides", rank), {}, positive_ints(c, "dilations", rank)};
  const auto pads = c.ints_attribute("pads").value_or(std::vector<int64_t>(2 * rank, 0));
  op.pads.assign(pads.begin(), pads.end());
  return c.result(std::move(op), {c.input(0), image, c.input(2)});
}

Values det(ConvertContext& c) {
  return c.result(ops::Determinant{}, {c.input(0)});
}

constexpr Converter vision_table[] = {
    {"AffineGrid", affine_grid, 20}, {"Col2Im", col2im, 18},          {"Det", det, 11},
    {"DeformConv", deform_conv, 19}, {"GridSample", grid_sample, 16}, {"MaxRoiPool", max_roi_pool},
    {"MaxUnpool", max_unpool, 9},    {"RoiAlign", roi_align, 10},
};

}  // namespace

Values grid_sample(ConvertContext& c) {
  ops::GridSample op;
  const std::string mode = c.string_attribute("mode", "linear");
  if (mode == "nearest") {
    op.mode = ops::SampleMode::nearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    op.mode = ops::SampleMode::cubic;
  } else if (mode != "linear" && mode != "bilinear") {
    c.invalid(fmt::format("mode '{}' is unknown", mode));
  }
  const std::string padding = c.string_attribute("padding_mode", "zeros");
  if (padding == "border") {
    op.padding = ops::SamplePadding::border;
  } else if (padding == "reflection") {
    op.padding = ops::SamplePadding::reflection;
  } else if (padding != "zeros") {
    c.invalid(fmt::format("padding_mode '{}' is unknown", padding));
  }
  op.align_corners = c.int_attribute("align_corners", 0) != 0;
  if (op.mode == ops::SampleMode::nearest && c.dtype(c.input(0)) == DType::string) return picked(c, op);
  return c.result(op, {c.input(0), c.input(1)});
}

std::span<const Converter> vision_converters() {
  return vision_table;
}

}  // namespace camshaft::onnx
