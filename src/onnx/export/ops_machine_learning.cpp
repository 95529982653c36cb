// Operators of ai.onnx.ml.
#include "ir/ops/lookup.h"
#include "ir/ops/map.h"
#include "ir/ops/support_vectors.h"
#include "onnx/export/export_operator.h"

namespace camshaft::onnx {

namespace {

constexpr const char* domain = "ai.onnx.ml";

}  // namespace

void export_as(ExportContext& c, const ops::PairwiseDistance&) {
  const std::string x = c.add("Unsqueeze", {c.input(0), c.ints({1})});
  const std::string y = c.add("Unsqueeze", {c.input(1), c.ints({0})});
  c.result("ReduceSumSquare", {c.add("Sub", {x, y}), c.ints({2})}, Attributes().integer("keepdims", 0));
}

void export_as(ExportContext& c, const ops::ScoreTransform& op) {
  const std::string x = c.input(0);
  const Attributes last = Attributes().integer("axis", -1);
  switch (op.transform) {
    case ops::PostTransform::none:
      return c.result("Identity", {x});
    case ops::PostTransform::logistic:
      return c.result("Sigmoid", {x});
    case ops::PostTransform::softmax:
      return c.result("Softmax", {x}, last);
    case ops::PostTransform::softmax_zero:
    case ops::PostTransform::probit:
      break;
  }
  c.unsupported("ONNX has the transforms SOFTMAX_ZERO and PROBIT only inside of classifiers and regressors");
}

void export_as(ExportContext& c, const ops::FindKeys& op) {
  const Tensor* keys = c.constant_input(1);
  if (!keys) c.unsupported("LabelEncoder takes its keys as numbers alone");
  if (op.must_find) c.unsupported("ONNX has no lookup that fails for an unknown key");
  std::vector<int64_t> places;
  for (int64_t i = 0; i < keys->size(); ++i) places.push_back(i);
  TensorProto key_list = c.tensor(*keys), place_list = c.tensor(Tensor::from_ints(places));
  c.result({"LabelEncoder", 4, domain}, {c.input(0)},
           Attributes()
               .tensor("keys_tensor", std::move(key_list))
               .tensor("values_tensor", std::move(place_list))
               .tensor("default_tensor", c.tensor(Tensor::from_ints({keys->size()}))));
}

void export_as(ExportContext& c, const ops::RowsToMaps&) {
  const Tensor* keys = c.constant_input(1);
  if (!keys) c.unsupported("ZipMap takes its keys as numbers alone");
  if (c.dtype(0) != DType::f32) c.unsupported("ZipMap makes maps of f32 alone");
  Attributes attributes;
  if (keys->dtype() == DType::string)
    attributes.texts("classlabels_strings", {keys->as<std::string>(), keys->as<std::string>() + keys->size()});
  else
    attributes.integers("classlabels_int64s", keys->to_ints());
  c.result({"ZipMap", 1, domain}, {c.input(0)}, std::move(attributes));
}

void export_as(ExportContext& c, const ops::MapEntries&) {
  c.unsupported("ONNX has no operator that gives the keys and values of a map");
}

void export_as(ExportContext& c, const ops::SupportVectorVote&) {
  c.unsupported("ONNX has the vote of support vectors only inside of SVMClassifier, with its kernel");
}

}  // namespace camshaft::onnx
