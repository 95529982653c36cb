// Operators that change or ask for shapes. What they need to know is content: see Inferred in ir/op.h.
#include <fmt/format.h>

#include <algorithm>

#include "ir/limits.h"
#include "ir/ops/control_flow.h"
#include "ir/ops/dynamic.h"
#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/select.h"
#include "onnx/converters.h"

namespace camshaft::onnx {

namespace {

Values identity(ConvertContext& c) {
  return {c.input(0)};
}

Values to_shape(ConvertContext& c, Shape shape) {
  if (c.shape(c.input(0)) == shape) return {c.input(0)};
  return c.result(ops::Reshape{std::move(shape)}, {c.input(0)});
}

// Larger ones are refused before anything is done with each of the axes.
void check_rank(ConvertContext& c, int64_t rank) {
  if (rank > most_model_axes)
    c.invalid(fmt::format("the result would have {} axes; at most {} can be", rank, most_model_axes));
}

// How many elements a 1-D tensor of sizes has: the rank of a shape that is data.
int64_t data_rank(ConvertContext& c, ValueId sizes) {
  if (c.rank(sizes) != 1) c.invalid(fmt::format("the shape must be 1-D, it is {}-D", c.rank(sizes)));
  const auto count = c.dim(sizes, 0).as_constant();
  const int64_t rank = count ? *count : c.declared_rank(0, "the number of axes of the result");
  check_rank(c, rank);
  return rank;
}

Shape data_shape(ConvertContext& c, ValueId sizes) {
  Shape shape;
  const int64_t rank = data_rank(c, sizes);
  for (int64_t i = 0; i < rank; ++i) shape.push_back(c.fresh(0, static_cast<size_t>(i)));
  return shape;
}

Values reshape(ConvertContext& c) {
  const ValueId x = c.input(0), sizes = c.input(1);
  const Shape& from = c.shape(x);
  const auto content = c.content(sizes);
  const bool allow_zero = c.int_attribute("allowzero", 0) != 0;
  if (!content) {
    if (data_rank(c, sizes) == 1) return to_shape(c, {product(from)});
    return c.result(ops::Reshape{data_shape(c, sizes), allow_zero}, {x, c.cast(sizes, DType::i64)});
  }
  check_rank(c, static_cast<int64_t>(content->size()));
  Shape to = *content;
  std::optional<size_t> rest;
  Dim known = 1;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == Dim(-1)) {
      if (rest) c.invalid("the shape has more than one -1");
      rest = i;
      continue;
    }
    if (to[i] == Dim(0) && !allow_zero) {
      if (i >= from.size()) c.invalid(fmt::format("the shape copies axis {}, the input has {} axes", i, from.size()));
      to[i] = from[i];
    }
    known = known * to[i];
  }
  if (rest) {
    if (known == Dim(0)) c.invalid("the size -1 has no solution: another size is 0");
    to[*rest] = floor_div(product(from), known);
  }
  return to_shape(c, std::move(to));
}

Values flatten(ConvertContext& c) {
  const ValueId x = c.input(0);
  const int64_t rank = c.rank(x), given = c.int_attribute("axis", 1);
  const int64_t axis = given == rank ? rank : c.axis(given, rank);
  return to_shape(c, {product(c.shape(x), 0, axis), product(c.shape(x), axis, rank)});
}

// True when the axes are an input whose elements only running tells.
bool has_data_axes(ConvertContext& c) {
  return !c.has_attribute("axes") && c.has(1) && !c.constant(c.input(1));
}

// How many axes come or go.
std::optional<int64_t> count_of_axes(ConvertContext& c) {
  const Shape& list = c.shape(c.input(1));
  if (list.size() > 1) c.invalid(fmt::format("the axes must be 1-D, not {}-D", list.size()));
  return list.empty() ? std::optional<int64_t>(1) : list[0].as_constant();
}

Values squeeze(ConvertContext& c) {
  const ValueId x = c.input(0);
  const int64_t rank = c.rank(x);
  if (has_data_axes(c)) {
    const auto count = count_of_axes(c);
    const int64_t left = count ? rank - *count : c.declared_rank(0, "the number of axes to squeeze");
    return c.result(ops::DynamicSqueeze{left}, {x, c.input(1)});
  }
  const auto given = c.ints_from("axes", 1);
  std::vector<int64_t> axes;
  if (given) {
    axes = c.axes(*given, rank);
  } else {
    for (int64_t i = 0; i < rank; ++i)
      if (c.dim(x, i) == Dim(1)) axes.push_back(i);
    // More axes go than are known to have size 1: running tells which.
    const int64_t left = c.declared_rank(0);
    if (left >= 0 && left < rank - static_cast<int64_t>(axes.size())) {
      const ValueId is_one = c.add(ScalarFunction::equal, {c.add(ops::ShapeOf{0, rank}, {x}), c.scalar(DType::i64, 1)});
      const ValueId found = c.add(ops::NonZero{}, {is_one});
      return c.result(ops::DynamicSqueeze{left}, {x, c.reshape(found, {c.dim(found, 1)})});
    }
  }
  Shape to;
  for (int64_t i = 0; i < rank; ++i) {
    const bool drop = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!drop) to.push_back(c.dim(x, i));
    if (drop && c.dim(x, i).as_constant().value_or(1) != 1)
      c.invalid(fmt::format("axis {} has {} elements, not 1", i, c.dim(x, i).str()));
  }
  if (given) return to_shape(c, std::move(to));
  // Axes that would go, too, if their size turned out to be 1: the result then had another rank.
  Dim none_is_one = 1;  // the product of sizes less 1
  std::string names;
  for (const Dim& size : to) {
    if (size.is_constant()) continue;
    none_is_one = none_is_one * (size - Dim(1));
    names += (names.empty() ? "" : ", ") + size.str();
  }
  if (names.empty()) return to_shape(c, std::move(to));
  const ValueId product = c.add(ops::DimsTensor{{none_is_one}, DType::i64, true}, {});
  const ValueId some_is_one = c.add(ScalarFunction::equal, {product, c.scalar(DType::i64, 0)});
  ops::Check check{
      false, fmt::format("without axes, {} removes every axis of size 1; which of {} are 1 must be known when the "
                         "model is built: give the axes, or fixed shapes",
                         c.node().op_type, names)};
  return c.result(std::move(check), {some_is_one, c.reshape(x, std::move(to))});
}

Values unsqueeze(ConvertContext& c) {
  const ValueId x = c.input(0);
  if (has_data_axes(c)) {
    const auto count = count_of_axes(c);
    if (count) check_rank(c, *count);  // before it is added to
    const int64_t all = count ? c.rank(x) + *count : c.declared_rank(0, "the number of new axes");
    check_rank(c, all);
    return c.result(ops::DynamicUnsqueeze{all}, {x, c.input(1)});
  }
  const auto given = c.ints_from("axes", 1);
  if (!given) c.invalid("it has no axes");
  const int64_t rank = c.rank(x) + static_cast<int64_t>(given->size());
  check_rank(c, rank);
  const auto axes = c.axes(*given, rank);
  Shape to;
  for (int64_t i = 0, from = 0; i < rank; ++i) {
    const bool is_new = std::find(axes.begin(), axes.end(), i) != axes.end();
    to.push_back(is_new ? Dim(1) : c.dim(x, from++));
  }
  return to_shape(c, std::move(to));
}

Values expand(ConvertContext& c) {
  const ValueId x = c.input(0), sizes = c.input(1);
  if (const auto content = c.content(sizes)) return c.result(ops::Expand{*content}, {x});
  return c.result(ops::Expand{data_shape(c, sizes)}, {x, c.cast(sizes, DType::i64)});
}

Values constant_of_shape(ConvertContext& c) {
  const ValueId sizes = c.input(0);
  Tensor value = c.tensor_attribute("value").value_or(Tensor::scalar(DType::f32, 0));
  if (value.size() != 1) c.invalid(fmt::format("attribute 'value' has {} elements, not 1", value.size()));
  const ValueId scalar = c.add_constant(value.reshaped({}));
  if (const auto content = c.content(sizes)) {
    if (content->empty()) return {scalar};
    return c.result(ops::Expand{*content}, {scalar});
  }
  return c.result(ops::Expand{data_shape(c, sizes)}, {scalar, c.cast(sizes, DType::i64)});
}

// Each repeated axis becomes two, [1, size], and is expanded to [repeats, size].
Values tile(ConvertContext& c) {
  const ValueId x = c.input(0), repeats = c.input(1);
  const auto content = c.content(repeats);
  if (!content) return c.result(ops::DynamicTile{}, {x, repeats});
  const std::vector<Dim> counts = *content;
  const Shape shape = c.shape(x);
  if (counts.size() != shape.size()) c.invalid(fmt::format("{} repeats for {} axes", counts.size(), shape.size()));
  Shape split, repeated, joined;
  for (size_t i = 0; i < shape.size(); ++i) {
    joined.push_back(counts[i] * shape[i]);
    if (!(counts[i] == Dim(1))) {
      split.emplace_back(1);
      repeated.push_back(counts[i]);
    }
    split.push_back(shape[i]);
    repeated.push_back(shape[i]);
  }
  if (split.size() == shape.size()) return {x};
  return c.result(ops::Reshape{joined}, {c.add(ops::Expand{repeated}, {c.reshape(x, split)})});
}

Values shape(ConvertContext& c) {
  const int64_t rank = c.rank(c.input(0));
  const auto bound = [&](int64_t given) { return std::clamp<int64_t>(given < 0 ? given + rank : given, 0, rank); };
  const int64_t start = bound(c.int_attribute("start", 0)), end = bound(c.int_attribute("end", rank));
  return c.result(ops::ShapeOf{start, std::max(start, end)}, {c.input(0)});
}

Values size(ConvertContext& c) {
  return c.result(ops::DimsTensor{{product(c.shape(c.input(0)))}, DType::i64, true}, {});
}

Values transpose(ConvertContext& c) {
  const ValueId x = c.input(0);
  std::vector<int64_t> reversed;
  for (int64_t i = c.rank(x); i-- > 0;) reversed.push_back(i);
  auto permutation = c.ints_attribute("perm").value_or(reversed);
  std::reverse(reversed.begin(), reversed.end());
  if (permutation == reversed) return {x};  // moves nothing
  return c.result(ops::Transpose{std::move(permutation)}, {x});
}

// [n, c, h, w] with the blocks of c spread over h and w.
Values depth_to_space(ConvertContext& c) {
  const ValueId x = c.input(0);
  if (c.rank(x) != 4) c.invalid(fmt::format("the input has {} axes, not 4", c.rank(x)));
  const int64_t block = c.int_attribute("blocksize");
  const std::string mode = c.string_attribute("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") c.invalid(fmt::format("mode '{}' is unknown", mode));
  if (block < 1) c.invalid("the block size must be positive");
  const Shape s = c.shape(x);
  const Dim channels = floor_div(s[1], Dim(block) * block);
  const bool depth_first = mode == "DCR";
  const ValueId split = c.add(ops::Reshape{depth_first ? Shape{s[0], block, block, channels, s[2], s[3]}
                                                       : Shape{s[0], channels, block, block, s[2], s[3]}},
                              {x});
  const ValueId moved = c.add(
      ops::Transpose{depth_first ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3}},
      {split});
  return c.result(ops::Reshape{{s[0], channels, s[2] * block, s[3] * block}}, {moved});
}

Values space_to_depth(ConvertContext& c) {
  const ValueId x = c.input(0);
  if (c.rank(x) != 4) c.invalid(fmt::format("the input has {} axes, not 4", c.rank(x)));
  const int64_t block = c.int_attribute("blocksize");
  if (block < 1) c.invalid("the block size must be positive");
  const Shape s = c.shape(x);
  const Dim h = floor_div(s[2], block), w = floor_div(s[3], block);
  const ValueId split = c.add(ops::Reshape{{s[0], s[1], h, block, w, block}}, {x});
  const ValueId moved = c.add(ops::Transpose{{0, 3, 5, 1, 2, 4}}, {split});
  return c.result(ops::Reshape{{s[0], s[1] * block * block, h, w}}, {moved});
}

constexpr Converter shape_table[] = {
    {"ConstantOfShape", constant_of_shape},
    {"DepthToSpace", depth_to_space},
    {"Expand", expand},
    {"Flatten", flatten},
    {"Identity", identity},
    {"Reshape", reshape},
    {"Shape", shape},
    {"Size", size},
    {"SpaceToDepth", space_to_depth},
    {"Squeeze", squeeze},
    {"Tile", tile},
    {"Transpose", transpose},
    {"Unsqueeze", unsqueeze},
};

}  // namespace

std::span<const Converter> shape_converters() {
  return shape_table;
}

}  // namespace camshaft::onnx
