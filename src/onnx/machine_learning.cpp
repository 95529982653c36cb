#include "onnx/machine_learning.h"

#include <fmt/format.h>

#include "onnx/quote.h"

namespace camshaft::onnx {

ops::PostTransform post_transform(ConvertContext& c) {
  const std::string name = c.string_attribute("post_transform", "NONE");
  if (name == "NONE") return ops::PostTransform::none;
  if (name == "LOGISTIC") return ops::PostTransform::logistic;
  if (name == "SOFTMAX") return ops::PostTransform::softmax;
  if (name == "SOFTMAX_ZERO") return ops::PostTransform::softmax_zero;
  if (name == "PROBIT") return ops::PostTransform::probit;
  c.invalid(fmt::format("post_transform {} is not known", quote(name)));
}

ValueId rows_of_features(ConvertContext& c) {
  const ValueId x = c.input(0);
  if (c.rank(x) == 1) return c.reshape(x, {1, c.dim(x, 0)});
  if (c.rank(x) != 2) c.invalid(fmt::format("the input has {} axes, not 2", c.rank(x)));
  return x;
}

Tensor floats_tensor(ConvertContext& c, std::string_view name) {
  const AttributeProto* a = c.attribute(name, AttributeType::floats);
  if (!a || a->floats.empty()) return {};
  return Tensor::of<float>(DType::f32, {static_cast<int64_t>(a->floats.size())}, a->floats);
}

Tensor ints_tensor(ConvertContext& c, std::string_view name) {
  const AttributeProto* a = c.attribute(name, AttributeType::ints);
  if (!a || a->ints.empty()) return {};
  return Tensor::from_ints(a->ints);
}

Tensor strings_tensor(ConvertContext& c, std::string_view name) {
  const AttributeProto* a = c.attribute(name, AttributeType::strings);
  if (!a || a->strings.empty()) return {};
  return Tensor::of<std::string>(DType::string, {static_cast<int64_t>(a->strings.size())}, a->strings);
}

Tensor class_labels(ConvertContext& c, std::string_view ints_name) {
  Tensor labels = strings_tensor(c, "classlabels_strings");
  return labels.defined() ? labels : ints_tensor(c, ints_name);
}

Values add_parts(ConvertContext& c, Op op, Values inputs, const std::vector<std::string>& names) {
  std::vector<std::string> full;
  for (const std::string& name : names)
    full.push_back((c.node().outputs.empty() ? c.node().op_type : c.node().outputs[0]) + "." + name);
  return c.add_all(std::move(op), std::move(inputs), full);
}

}  // namespace camshaft::onnx
