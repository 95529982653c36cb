// Encoders, scalers and other preparation of features of ai.onnx.ml.
#include <fmt/format.h>

#include <cmath>

#include "ir/ops/lookup.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "onnx/machine_learning.h"
#include "onnx/quote.h"
#include "reference/elements.h"
#include "reference/ml/lookup.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

/// The elements at `order`, then those of `more` (0 or 1 elements of the same dtype).
Tensor take(const Tensor& list, const std::vector<int64_t>& order, const Tensor& more) {
  const auto extra = more.defined() ? int64_t{1} : int64_t{0};
  Tensor out(list.dtype(), {static_cast<int64_t>(order.size()) + extra});
  ops::visit_storage(list.dtype(), [&]<class T>(const T&) {
    T* to = out.as_mutable<T>();
    for (const int64_t i : order) *to++ = list.as<T>()[i];
    if (more.defined()) *to = *more.as<T>();
  });
  return out;
}

Values mapped(ConvertContext& c, const Tensor& keys, const Tensor& values, const Tensor& otherwise) {
  const ValueId x = c.input(0);
  if (keys.dtype() != c.dtype(x))
    c.invalid(fmt::format("the input is {}, the keys are {}", to_string(c.dtype(x)), to_string(keys.dtype())));
  if (keys.rank() != 1 || values.rank() != 1 || keys.size() != values.size())
    c.invalid(fmt::format("{} keys do not fit {} values", keys.size(), values.size()));
  const std::vector<int64_t> order = ops::order_of_keys(keys, true);
  const ValueId index = c.add(ops::FindKeys{}, {x, c.add_constant(take(keys, order, {}))});
  return c.result(ops::Gather{0}, {c.add_constant(take(values, order, otherwise)), index});
}

/// What `prefix` + "floats" and so on give; undefined when nothing does.
Tensor list_of(ConvertContext& c, const std::string& prefix) {
  for (const Tensor& t :
       {strings_tensor(c, prefix + "strings"), ints_tensor(c, prefix + "int64s"), floats_tensor(c, prefix + "floats")})
    if (t.defined()) return t;
  if (auto tensor = c.tensor_attribute(prefix + "tensor")) {
    if (is_packed(tensor->dtype()))
      c.unsupported(fmt::format("attribute '{}tensor' of {}", prefix, to_string(tensor->dtype())));
    return *tensor;
  }
  return {};
}

Tensor text(const std::string& value) {
  return Tensor::of<std::string>(DType::string, {}, {value});
}

Tensor default_of(ConvertContext& c, DType dtype) {
  if (auto tensor = c.tensor_attribute("default_tensor")) {
    if (tensor->dtype() != dtype || tensor->size() != 1)
      c.invalid(fmt::format("default_tensor must be one {}", to_string(dtype)));
    return *tensor;
  }
  if (dtype == DType::string) return text(c.string_attribute("default_string", "_Unused"));
  if (dtype == DType::i64) return Tensor::of<int64_t>(DType::i64, {}, {c.int_attribute("default_int64", -1)});
  if (is_floating(dtype)) return Tensor::scalar(dtype, c.float_attribute("default_float", -0.0));
  return Tensor::scalar(dtype, -1);
}

/// Names by their position, both ways: `names` and their numbers, which are the positions when `numbers` is undefined.
Values by_position(ConvertContext& c, const Tensor& names, Tensor numbers) {
  if (!names.defined()) c.invalid("it has no list of strings");
  if (!numbers.defined()) {
    std::vector<int64_t> positions;
    for (int64_t i = 0; i < names.size(); ++i) positions.push_back(i);
    numbers = Tensor::from_ints(positions);
  }
  if (c.dtype(c.input(0)) == DType::string)
    return mapped(c, names, numbers, Tensor::of<int64_t>(DType::i64, {}, {c.int_attribute("default_int64", -1)}));
  return mapped(c, numbers, names, text(c.string_attribute("default_string", "_Unused")));
}

Values label_encoder_1(ConvertContext& c) {
  return by_position(c, strings_tensor(c, "classes_strings"), {});
}

Values label_encoder(ConvertContext& c) {
  Tensor keys = list_of(c, "keys_"), values = list_of(c, "values_");
  if (!keys.defined() || !values.defined()) c.invalid("it needs one attribute of keys and one of values");
  const Tensor otherwise = default_of(c, values.dtype());
  return mapped(c, keys.reshaped({keys.size()}), values.reshaped({values.size()}), otherwise);
}

Values category_mapper(ConvertContext& c) {
  const Tensor numbers = ints_tensor(c, "cats_int64s");
  if (!numbers.defined()) c.invalid("attribute 'cats_int64s' is missing");
  return by_position(c, strings_tensor(c, "cats_strings"), numbers);
}

Values one_hot_encoder(ConvertContext& c) {
  ValueId x = c.input(0);
  const bool is_string = c.dtype(x) == DType::string;
  const Tensor categories = is_string ? strings_tensor(c, "cats_strings") : ints_tensor(c, "cats_int64s");
  if (!categories.defined()) c.invalid(fmt::format("it has no categories for an input of {}", to_string(c.dtype(x))));
  if (!is_string) x = c.cast(x, DType::i64);
  const std::vector<int64_t> order = ops::order_of_keys(categories, true);
  const ops::FindKeys find{c.int_attribute("zeros", 1) == 0};
  const ValueId found = c.add(find, {x, c.add_constant(take(categories, order, {}))});
  // Rows of a table that lies in L1, of which the last is for what is no category: copies, not comparisons.
  const int64_t width = categories.size(), rows = std::ssize(order) + 1;
  if (rows * width <= 8 * 1024) {
    std::vector<float> table(static_cast<size_t>(rows * width));
    for (int64_t r = 0; r + 1 < rows; ++r) table[static_cast<size_t>(r * width + order[static_cast<size_t>(r)])] = 1;
    return {c.add(ops::Gather{0}, {c.add_constant(Tensor::of<float>(DType::f32, {rows, width}, table)), found})};
  }
  // Back to the order of the attribute; what is no category has a position that no column has.
  std::vector<int64_t> positions = order;
  positions.push_back(-1);
  const ValueId place = c.add(ops::Gather{0}, {c.add_constant(Tensor::from_ints(positions)), found});
  std::vector<int64_t> columns;
  for (int64_t i = 0; i < width; ++i) columns.push_back(i);
  Shape wide = c.shape(x);
  wide.emplace_back(1);
  const ValueId is_here = c.add(F::equal, {c.reshape(place, wide), c.add_constant(Tensor::from_ints(columns))});
  return {c.cast(is_here, DType::f32)};
}

/// f64 stays, other numbers become f32.
ValueId as_float(ConvertContext& c, ValueId x) {
  return c.dtype(x) == DType::f64 ? x : c.cast(x, DType::f32);
}

/// A list of floats as a constant of x's dtype, of one element or one for each of the last axis.
ValueId per_feature(ConvertContext& c, ValueId x, std::string_view name, Tensor list) {
  const auto width = c.rank(x) == 0 ? std::optional<int64_t>(1) : c.dim(x, c.rank(x) - 1).as_constant();
  if (list.size() != 1 && width && list.size() != *width)
    c.invalid(fmt::format("attribute '{}' has {} elements, the input has {} features", name, list.size(), *width));
  return c.cast(c.add_constant(std::move(list)), c.dtype(x));
}

Values scaler(ConvertContext& c) {
  ValueId y = as_float(c, c.input(0));
  const Tensor offset = floats_tensor(c, "offset"), scale = floats_tensor(c, "scale");
  if (offset.defined()) y = c.add(F::sub, {y, per_feature(c, y, "offset", offset)});
  if (scale.defined()) y = c.add(F::mul, {y, per_feature(c, y, "scale", scale)});
  return {c.cast(y, DType::f32)};
}

Values normalizer(ConvertContext& c) {
  const ValueId x = as_float(c, c.input(0));
  if (c.rank(x) < 1) c.invalid("the input has no axes");
  const int64_t axis = c.rank(x) == 1 ? 0 : 1;
  const std::string norm = c.string_attribute("norm", "MAX");
  const auto reduced = [&](ops::ReduceKind kind) { return c.add(ops::Reduce{kind, {axis}, true}, {x}); };
  ValueId divisor = no_value;
  if (norm == "MAX") {
    divisor = reduced(ops::ReduceKind::max);
  } else if (norm == "L1") {
    divisor = reduced(ops::ReduceKind::sum_abs);
  } else if (norm == "L2") {
    divisor = c.add(F::sqrt, {reduced(ops::ReduceKind::sum_squares)});
  } else {
    c.invalid(fmt::format("norm {} is not known", quote(norm)));
  }
  const ValueId is_zero = c.add(F::equal, {divisor, c.scalar(c.dtype(x), 0)});
  const ValueId safe = c.add(F::select, {is_zero, c.scalar(c.dtype(x), 1), divisor});
  return {c.cast(c.add(F::div, {x, safe}), DType::f32)};
}

Values imputer(ConvertContext& c) {
  const ValueId x = c.input(0);
  const bool is_real = is_floating(c.dtype(x));
  const Tensor values = is_real ? floats_tensor(c, "imputed_value_floats") : ints_tensor(c, "imputed_value_int64s");
  if (!values.defined()) c.invalid(fmt::format("it has no imputed values for an input of {}", to_string(c.dtype(x))));
  ValueId is_missing = no_value;
  if (is_real) {
    const double replaced = c.float_attribute("replaced_value_float", 0);
    is_missing = std::isnan(replaced) ? c.add(F::is_nan, {x}) : c.add(F::equal, {x, c.scalar(c.dtype(x), replaced)});
  } else {
    const Tensor replaced = Tensor::of<int64_t>(DType::i64, {}, {c.int_attribute("replaced_value_int64", 0)});
    is_missing = c.add(F::equal, {x, c.cast(c.add_constant(replaced), c.dtype(x))});
  }
  return c.result(F::select, {is_missing, per_feature(c, x, "imputed values", values), x});
}

Values binarizer(ConvertContext& c) {
  const ValueId x = c.input(0);
  // Integers are compared with the threshold, which need not be one, as doubles.
  const ValueId wide = is_floating(c.dtype(x)) ? x : c.cast(x, DType::f64);
  const ValueId threshold = c.scalar(c.dtype(wide), c.float_attribute("threshold", 0));
  return {c.cast(c.add(F::less, {threshold, wide}), c.dtype(x))};
}

Values array_feature_extractor(ConvertContext& c) {
  const ValueId x = c.input(0);
  if (c.rank(x) < 1) c.invalid("the input has no axes");
  const ValueId picks = c.reshape(c.input(1), {product(c.shape(c.input(1)))});
  const ValueId rows = c.rank(x) == 1 ? c.reshape(x, {1, c.dim(x, 0)}) : x;
  return c.result(ops::Gather{c.rank(rows) - 1}, {rows, picks});
}

Values feature_vectorizer(ConvertContext& c) {
  const auto sizes = c.ints_attribute("inputdimensions").value_or(std::vector<int64_t>{});
  Values parts;
  for (size_t i = 0; i < c.all_inputs().size(); ++i) {
    ValueId x = c.input(i);
    if (c.rank(x) == 1) x = c.reshape(x, {1, c.dim(x, 0)});
    if (c.rank(x) != 2) c.invalid(fmt::format("input {} has {} axes, not 2", i, c.rank(x)));
    x = c.cast(x, DType::f32);
    // Zeros fill up, and what is too much is cut off.
    if (i < sizes.size() && c.dim(x, 1) != Dim(sizes[i]))
      x = c.add(ops::Pad{ops::PadMode::constant, {0, 0, 0, Dim(sizes[i]) - c.dim(x, 1)}}, {x});
    parts.push_back(x);
  }
  return parts.size() == 1 ? parts : c.result(ops::Concat{1}, parts);
}

constexpr Converter features_table[] = {
    {"ArrayFeatureExtractor", array_feature_extractor},
    {"Binarizer", binarizer},
    {"CategoryMapper", category_mapper},
    {"FeatureVectorizer", feature_vectorizer},
    {"Imputer", imputer},
    {"LabelEncoder", label_encoder_1},
    {"LabelEncoder", label_encoder, 2},
    {"Normalizer", normalizer},
    {"OneHotEncoder", one_hot_encoder},
    {"Scaler", scaler},
};

}  // namespace

std::span<const Converter> feature_converters() {
  return features_table;
}

}  // namespace camshaft::onnx
