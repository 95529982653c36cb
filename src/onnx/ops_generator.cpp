// Operators that make tensors out of attributes, sizes and scalars.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <numeric>

#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "onnx/converters.h"
#include "onnx/generators.h"
#include "onnx/onnx_dtype.h"
#include "onnx/to_tensor.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

Tensor constant_value(ConvertContext& c) {
  if (auto tensor = c.tensor_attribute("value")) return *tensor;
  if (const auto* a = c.attribute("sparse_value", AttributeType::sparse_tensor))
    return to_tensor(c.tensors().read(a->sparse_tensors.at(0), "attribute 'sparse_value'"));
  if (const auto* a = c.attribute("value_float", AttributeType::float_))
    return Tensor::of<float>(DType::f32, {}, {a->f});
  if (const auto* a = c.attribute("value_int", AttributeType::int_)) return Tensor::of<int64_t>(DType::i64, {}, {a->i});
  if (const auto* a = c.attribute("value_string", AttributeType::string))
    return Tensor::of<std::string>(DType::string, {}, {a->s});
  const auto length = [](const auto& list) { return Dims{static_cast<int64_t>(list.size())}; };
  if (const auto* a = c.attribute("value_floats", AttributeType::floats))
    return Tensor::of<float>(DType::f32, length(a->floats), a->floats);
  if (const auto* a = c.attribute("value_ints", AttributeType::ints))
    return Tensor::of<int64_t>(DType::i64, length(a->ints), a->ints);
  if (const auto* a = c.attribute("value_strings", AttributeType::strings))
    return Tensor::of<std::string>(DType::string, length(a->strings), a->strings);
  c.invalid("it has no value");
}

Values constant(ConvertContext& c) {
  return {c.add_named_constant(constant_value(c))};
}

Values range(ConvertContext& c) {
  Values inputs;
  for (size_t i = 0; i < 3; ++i) inputs.push_back(c.reshape(c.input(i), {}));
  return c.result(ops::Range{}, std::move(inputs));
}

// The numbers of positions along axes of these sizes: i32 where it holds them and their sums, of which twice as many
// are compared at once.
DType position_type(std::initializer_list<Dim> sizes) {
  const bool is_small = std::all_of(sizes.begin(), sizes.end(), [](const Dim& size) {
    const auto n = size.as_constant();
    return n && *n < (int64_t{1} << 29);
  });
  return is_small ? DType::i32 : DType::i64;
}

// Row and column numbers of the last two axes decide what is kept: columns - rows >= k for the upper triangle.
Values trilu(ConvertContext& c) {
  const ValueId x = c.input(0);
  const int64_t rank = c.rank(x);
  if (rank < 2) c.invalid(fmt::format("the input has {} axes, at least 2 are needed", rank));
  const bool upper = c.int_attribute("upper", 1) != 0;
  const Dim rows = c.dim(x, rank - 2), columns = c.dim(x, rank - 1);
  const DType type = position_type({rows, columns});
  const ValueId row = c.reshape(c.cast(iota(c, rows), type), {rows, 1});
  const ValueId column = c.cast(iota(c, columns), type);
  ValueId diagonal = row;
  if (c.has(1)) {
    // The tensor has fewer rows and columns, and their number plus k must not overflow.
    const double beyond = type == DType::i32 ? 0x1p30 : 0x1p40;
    const ValueId most = c.scalar(DType::i64, beyond), least = c.scalar(DType::i64, -beyond);
    const ValueId k = c.add(F::max, {c.add(F::min, {c.reshape(c.input(1), {}), most}), least});
    diagonal = c.add(F::add, {row, c.cast(k, type)});
  }
  const ValueId kept =
      upper ? c.add(F::less_or_equal, {diagonal, column}) : c.add(F::less_or_equal, {column, diagonal});
  return c.result(F::select, {kept, x, c.add_constant(Tensor(c.dtype(x), {}))});  // 0, or an empty string
}

Values eye_like(ConvertContext& c) {
  const ValueId x = c.input(0);
  if (c.rank(x) != 2) c.invalid(fmt::format("the input has {} axes, not 2", c.rank(x)));
  DType to = c.dtype(x);
  if (c.has_attribute("dtype"))
    to = dtype_from_onnx(static_cast<int32_t>(c.int_attribute("dtype")), "attribute 'dtype'");
  const Dim rows = c.dim(x, 0), columns = c.dim(x, 1);
  const DType type = position_type({rows, columns});
  const ValueId row = c.reshape(c.cast(iota(c, rows), type), {rows, 1});
  const int64_t beyond = int64_t{1} << 30;  // of diagonals that are there, where positions are i32
  const int64_t given = c.int_attribute("k", 0);
  const ValueId k = c.add_constant(
      Tensor::of<int64_t>(DType::i64, {}, {type == DType::i32 ? std::clamp(given, -beyond, beyond) : given}));
  const ValueId diagonal = c.add(F::add, {row, c.cast(k, type)});
  const ValueId column = c.cast(iota(c, columns), type);
  return c.result(ops::Cast{to}, {c.add(F::equal, {diagonal, column})});
}

// (indices, depth, [off, on]): a new axis that says whether the index is the position; negative ones count from the
// end.
Values one_hot(ConvertContext& c) {
  const ValueId indices = c.cast(c.input(0), DType::i64), depth = c.cast(c.input(1), DType::i64);
  const auto content = c.content(depth);
  if (c.rank(depth) > 1) c.invalid(fmt::format("the depth must be one number, it is {}-D", c.rank(depth)));
  if (content && content->size() != 1) c.invalid(fmt::format("the depth has {} elements, not 1", content->size()));
  ValueId places = no_value;
  if (content) {
    places = iota(c, content->front());
  } else {
    places = c.add(ops::Range{}, {c.scalar(DType::i64, 0), c.reshape(depth, {}), c.scalar(DType::i64, 1)});
  }
  const Dim size = content ? content->front() : c.dim(places, 0);
  if (const auto n = size.as_constant(); n && *n < 0) c.invalid(fmt::format("the depth {} is negative", *n));
  const int64_t rank = c.rank(indices) + 1, axis = c.axis(c.int_attribute("axis", -1), rank);
  Shape shape = c.shape(indices);
  shape.insert(shape.begin() + axis, Dim(1));
  const ValueId column = c.reshape(indices, shape);
  const ValueId negative = c.add(F::less, {column, c.scalar(DType::i64, 0)});
  const ValueId wrapped = c.add(F::add, {column, c.reshape(depth, {})});
  const ValueId index = c.add(F::select, {negative, wrapped, column});
  Shape along(static_cast<size_t>(rank), Dim(1));
  along[static_cast<size_t>(axis)] = size;
  const ValueId hot = c.add(F::equal, {index, c.reshape(places, along)});
  const ValueId off = c.reshape(c.add(ops::Slice{{0}, {0}, {1}, {1}}, {c.input(2)}), {});
  const ValueId on = c.reshape(c.add(ops::Slice{{0}, {1}, {1}, {1}}, {c.input(2)}), {});
  return c.result(F::select, {hot, on, off});
}

constexpr Converter generator_table[] = {
    {"Constant", constant}, {"EyeLike", eye_like}, {"OneHot", one_hot}, {"Range", range}, {"Trilu", trilu},
};

}  // namespace

ValueId iota(ConvertContext& c, Dim count) {
  constexpr int64_t largest_constant = 4096;
  if (const auto n = count.as_constant(); n && *n >= 0 && *n <= largest_constant) {
    std::vector<int64_t> positions(static_cast<size_t>(*n));
    std::iota(positions.begin(), positions.end(), 0);
    return c.add_constant(Tensor::from_ints(positions));
  }
  const ValueId zero = c.scalar(DType::i64, 0),
                limit = c.add(ops::DimsTensor{{std::move(count)}, DType::i64, true}, {});
  return c.add(ops::Range{}, {zero, limit, c.scalar(DType::i64, 1)});
}

std::span<const Converter> generator_converters() {
  return generator_table;
}

}  // namespace camshaft::onnx
