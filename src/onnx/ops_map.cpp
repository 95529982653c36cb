// Maps of ai.onnx.ml: made of the scores of a classifier, or taken apart to features.
#include <fmt/format.h>

#include "ir/container_type.h"
#include "ir/ops/generate.h"
#include "ir/ops/lookup.h"
#include "ir/ops/map.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "onnx/machine_learning.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

namespace {

/// The one of two lists that the node has.
Tensor one_list(ConvertContext& c, std::string_view ints, std::string_view strings) {
  const Tensor numbers = ints_tensor(c, ints), texts = strings_tensor(c, strings);
  if (numbers.defined() == texts.defined())
    c.invalid(fmt::format("it needs one of the attributes '{}' and '{}'", ints, strings));
  return numbers.defined() ? numbers : texts;
}

Values zip_map(ConvertContext& c) {
  const ValueId x = c.input(0);
  const Tensor labels = one_list(c, "classlabels_int64s", "classlabels_strings");
  if (c.rank(x) != 1 && c.rank(x) != 2) c.invalid(fmt::format("the input has {} axes, not 1 or 2", c.rank(x)));
  if (const auto width = c.shape(x).back().as_constant(); width && *width != labels.size())
    c.invalid(fmt::format("{} class labels do not fit rows of {} values", labels.size(), *width));
  return c.result(ops::RowsToMaps{}, {x, c.add_constant(labels)});
}

struct Entries {
  ValueId keys, values;
};

Entries entries(ConvertContext& c) {
  const ValueId map = c.input(0);
  const TensorType& type = c.graph().type(map);
  if (type.dtype != DType::map) c.invalid(fmt::format("input 0 must be a map, it is {}", to_string(type)));
  const Values parts = add_parts(c, ops::MapEntries{}, {map}, {"keys", "values"});
  return {parts[0], parts[1]};
}

/// For each of `wanted` the value of the entry with that key, `otherwise` (one element) where there is none.
ValueId values_of(ConvertContext& c, ValueId wanted, const Entries& from, ValueId otherwise) {
  const ValueId index = c.add(ops::FindKeys{}, {wanted, from.keys});
  return c.add(ops::Gather{0}, {c.add(ops::Concat{0}, {from.values, otherwise}), index});
}

/// What stands for a missing value: 0, or the empty string.
ValueId nothing(ConvertContext& c, DType dtype) {
  return c.add_constant(Tensor(dtype, {1}));
}

Values cast_map(ConvertContext& c) {
  const std::string to = c.string_attribute("cast_to", "TO_FLOAT");
  const DType dtype = to == "TO_FLOAT"    ? DType::f32
                      : to == "TO_STRING" ? DType::string
                      : to == "TO_INT64"  ? DType::i64
                                          : DType::boolean;
  if (dtype == DType::boolean)
    c.invalid(fmt::format("attribute 'cast_to' is {}, not TO_FLOAT, TO_STRING or TO_INT64", quote(to)));
  const std::string form = c.string_attribute("map_form", "DENSE");
  if (form != "DENSE" && form != "SPARSE")
    c.invalid(fmt::format("attribute 'map_form' is {}, neither DENSE nor SPARSE", quote(form)));
  Entries from = entries(c);
  if (c.dtype(from.keys) != DType::i64)
    c.invalid(fmt::format("the keys must be i64, they are {}", to_string(c.dtype(from.keys))));
  from.values = c.cast(from.values, dtype);
  if (form == "DENSE") return c.result(ops::Reshape{{1, c.dim(from.values, 0)}}, {from.values});
  const int64_t size = c.int_attribute("max_map", 1);
  if (size < 1) c.invalid(fmt::format("attribute 'max_map' is {}, a map of that size has no place", size));
  const ValueId places = c.add(
      ops::Range{},
      {c.scalar(DType::i64, 0), c.add_constant(Tensor::of<int64_t>(DType::i64, {}, {size})), c.scalar(DType::i64, 1)});
  return c.result(ops::Reshape{{1, size}}, {values_of(c, places, from, nothing(c, dtype))});
}

Values dict_vectorizer(ConvertContext& c) {
  const Tensor vocabulary = one_list(c, "int64_vocabulary", "string_vocabulary");
  const Entries from = entries(c);
  if (c.dtype(from.keys) != vocabulary.dtype())
    c.invalid(fmt::format("the keys of the map are {}, the vocabulary is {}", to_string(c.dtype(from.keys)),
                          to_string(vocabulary.dtype())));
  const ValueId y = values_of(c, c.add_constant(vocabulary), from, nothing(c, c.dtype(from.values)));
  // The standard says one axis, ONNX Runtime and the exporters [1, n]: who wants the former declares it.
  if (c.declared_rank(0) == 1) return {y};
  return c.result(ops::Reshape{{1, vocabulary.size()}}, {y});
}

constexpr Converter map_table[] = {
    {"CastMap", cast_map},
    {"DictVectorizer", dict_vectorizer},
    {"ZipMap", zip_map},
};

}  // namespace

std::span<const Converter> map_converters() {
  return map_table;
}

}  // namespace camshaft::onnx
