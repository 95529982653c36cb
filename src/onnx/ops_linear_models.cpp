// Linear models and support vector machines of ai.onnx.ml.
#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/support_vectors.h"
#include "onnx/machine_learning.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

using F = ScalarFunction;
using ops::PostTransform;

namespace {

Tensor matrix(ConvertContext& c, std::string_view name, int64_t rows) {
  Tensor t = floats_tensor(c, name);
  if (!t.defined()) c.invalid(fmt::format("attribute '{}' is missing", name));
  if (rows < 1 || t.size() % rows != 0)
    c.invalid(fmt::format("attribute '{}' has {} elements, which are not {} rows", name, t.size(), rows));
  return t.reshaped({rows, t.size() / rows});
}

ValueId transformed(ConvertContext& c, ValueId scores, PostTransform transform) {
  switch (transform) {
    case PostTransform::none:
      return scores;
    case PostTransform::logistic:
      return c.add(F::sigmoid, {scores});
    case PostTransform::softmax:
      return c.add(ops::Softmax{1, false}, {scores});
    default:
      return c.add(ops::ScoreTransform{transform}, {scores});
  }
}

/// x · matrixᵀ
ValueId product_with(ConvertContext& c, ValueId x, Tensor rows) {
  return c.add(ops::MatMul{false, true}, {x, c.add_constant(std::move(rows))});
}

ValueId rows_of_f32(ConvertContext& c) {
  return c.cast(rows_of_features(c), DType::f32);
}

Values linear_regressor(ConvertContext& c) {
  const int64_t targets = c.int_attribute("targets", 1);
  ValueId scores = product_with(c, rows_of_f32(c), matrix(c, "coefficients", targets));
  const Tensor intercepts = floats_tensor(c, "intercepts");
  if (intercepts.defined()) {
    if (intercepts.size() != targets)
      c.invalid(fmt::format("{} intercepts do not fit {} targets", intercepts.size(), targets));
    scores = c.add(F::add, {scores, c.add_constant(intercepts)});
  }
  // One score is not transformed but by PROBIT: so does ONNX Runtime.
  const PostTransform transform = post_transform(c);
  return {targets > 1 || transform == PostTransform::probit ? transformed(c, scores, transform) : scores};
}

/// Two columns out of the score of the second class: 1 - s and s.
ValueId with_complement(ConvertContext& c, ValueId score) {
  return c.add(ops::Concat{1}, {c.add(F::sub, {c.scalar(DType::f32, 1), score}), score});
}

ValueId with_negative(ConvertContext& c, ValueId score) {
  return c.add(ops::Concat{1}, {c.add(F::neg, {score}), score});
}

ValueId labels_at(ConvertContext& c, Tensor labels, ValueId index) {
  return c.result_at(0, ops::Gather{0}, {c.add_constant(std::move(labels)), index});
}

/// 1 where a column vector [rows, 1] is positive, else 0, as [rows].
ValueId is_positive(ConvertContext& c, ValueId score) {
  const ValueId positive = c.add(F::less, {c.scalar(DType::f32, 0), score});
  return c.reshape(c.cast(positive, DType::i64), {c.dim(score, 0)});
}

Values linear_classifier(ConvertContext& c) {
  Tensor labels = class_labels(c, "classlabels_ints");
  const Tensor intercepts = floats_tensor(c, "intercepts");
  if (!labels.defined()) labels = Tensor::from_ints({0, 1});
  const int64_t classes = intercepts.defined() ? intercepts.size() : labels.size();
  ValueId scores = product_with(c, rows_of_f32(c), matrix(c, "coefficients", classes));
  if (intercepts.defined()) scores = c.add(F::add, {scores, c.add_constant(intercepts)});
  const PostTransform transform = post_transform(c);
  if (classes == 1) {
    const bool are_two = labels.size() == 2;
    if (!are_two)
      labels = labels.dtype() == DType::string ? Tensor::of<std::string>(DType::string, {2}, {"0", "1"})
                                               : Tensor::from_ints({0, 1});
    const ValueId label = labels_at(c, labels, is_positive(c, scores));
    if (!are_two) return {label, transform == PostTransform::probit ? transformed(c, scores, transform) : scores};
    const bool is_alone = transform == PostTransform::logistic || transform == PostTransform::probit;
    return {label, with_complement(c, is_alone ? transformed(c, scores, transform) : scores)};
  }
  if (labels.size() < classes) c.invalid(fmt::format("{} labels do not fit {} classes", labels.size(), classes));
  const ValueId label = labels_at(c, labels, c.add(ops::ArgReduce{true, 1, false, false}, {scores}));
  return {label, transformed(c, scores, transform)};
}

/// The kernel function of every row of x with every support vector: [rows, vectors].
ValueId kernel_values(ConvertContext& c, ValueId x, Tensor vectors) {
  const std::string kernel = c.string_attribute("kernel_type", "LINEAR");
  auto params = c.floats_attribute("kernel_params").value_or(std::vector<double>{});
  params.resize(3);
  const auto scalar = [&](double value) { return c.scalar(DType::f32, value); };
  if (kernel == "RBF") {
    const ValueId squares = c.add(ops::PairwiseDistance{}, {x, c.add_constant(std::move(vectors))});
    return c.add(F::exp, {c.add(F::mul, {squares, scalar(-params[0])})});
  }
  const ValueId dot = product_with(c, x, std::move(vectors));
  if (kernel == "LINEAR") return dot;
  const ValueId affine = c.add(F::add, {c.add(F::mul, {dot, scalar(params[0])}), scalar(params[1])});
  if (kernel == "SIGMOID") return c.add(F::tanh, {affine});
  if (kernel == "POLY") return c.add(F::pow, {affine, scalar(params[2])});
  c.invalid(fmt::format("kernel_type {} is not known", quote(kernel)));
}

ValueId first_of_rho(ConvertContext& c) {
  const auto rho = c.floats_attribute("rho");
  if (!rho || rho->empty()) c.invalid("attribute 'rho' is missing");
  return c.scalar(DType::f32, rho->front());
}

Values svm_regressor(ConvertContext& c) {
  const int64_t supports = c.int_attribute("n_supports", 0);
  if (supports < 0) c.invalid(fmt::format("n_supports is {}", supports));
  ValueId features = rows_of_f32(c);
  if (supports > 0) features = kernel_values(c, features, matrix(c, "support_vectors", supports));
  ValueId score = product_with(c, features, matrix(c, "coefficients", 1));
  score = c.add(F::add, {score, first_of_rho(c)});
  if (c.int_attribute("one_class", 0) != 0) {
    const ValueId positive = c.add(F::less, {c.scalar(DType::f32, 0), score});
    return c.result(F::select, {positive, c.scalar(DType::f32, 1), c.scalar(DType::f32, -1)});
  }
  const PostTransform transform = post_transform(c);
  return {transform == PostTransform::probit ? transformed(c, score, transform) : score};
}

Values linear_svm_classifier(ConvertContext& c, const Tensor& labels) {
  const int64_t classes = labels.size();
  const Tensor coefficients = matrix(c, "coefficients", classes);
  const bool all_positive = std::all_of(coefficients.as<float>(), coefficients.as<float>() + coefficients.size(),
                                        [](float f) { return f >= 0; });
  const ValueId scores = c.add(F::add, {product_with(c, rows_of_f32(c), coefficients), first_of_rho(c)});
  ValueId index = c.add(ops::ArgReduce{true, 1, false, false}, {scores});
  if (classes == 2 && !c.has_attribute("prob_a")) {
    // The second class wins whenever any score says yes: ONNX Runtime's rule.
    const ValueId best = c.add(ops::Reduce{ops::ReduceKind::max, {1}, false}, {scores});
    const ValueId yes = all_positive ? c.add(F::less_or_equal, {c.scalar(DType::f32, 0.5), best})
                                     : c.add(F::less, {c.scalar(DType::f32, 0), best});
    index = c.add(F::select, {yes, c.scalar(DType::i64, 1), index});
  }
  return {labels_at(c, labels, index), transformed(c, scores, post_transform(c))};
}

Values svm_classifier(ConvertContext& c) {
  const Tensor labels = class_labels(c, "classlabels_ints");
  if (!labels.defined()) c.invalid("it has no class labels");
  const auto counts = c.ints_attribute("vectors_per_class").value_or(std::vector<int64_t>{});
  int64_t vectors = 0;
  for (const int64_t count : counts)
    if (count < 0 || __builtin_add_overflow(vectors, count, &vectors))
      c.invalid(fmt::format("{} vectors of a class", count));
  if (vectors == 0) return linear_svm_classifier(c, labels);
  const int64_t classes = labels.size();
  if (static_cast<int64_t>(counts.size()) != classes || classes < 2)
    c.invalid(fmt::format("{} classes do not fit {} counts of vectors", classes, counts.size()));
  const int64_t pairs = classes * (classes - 1) / 2;
  const auto list = [&](std::string_view name) {
    Tensor t = floats_tensor(c, name);
    if (!t.defined() || t.size() < pairs) c.invalid(fmt::format("attribute '{}' needs {} elements", name, pairs));
    return c.add_constant(
        t.size() == pairs ? t : Tensor::of<float>(DType::f32, {pairs}, {t.as<float>(), t.as<float>() + pairs}));
  };
  const ValueId kernel = kernel_values(c, rows_of_f32(c), matrix(c, "support_vectors", vectors));
  Tensor coefficients = matrix(c, "coefficients", classes - 1);
  if (coefficients.dims()[1] != vectors)
    c.invalid(fmt::format("{} coefficients do not fit {} vectors", coefficients.size(), vectors));
  Values inputs{kernel, c.add_constant(std::move(coefficients)), list("rho")};
  const bool has_probabilities = floats_tensor(c, "prob_a").defined();
  if (has_probabilities) inputs.push_back(list("prob_a")), inputs.push_back(list("prob_b"));
  const Values outputs = add_parts(c, ops::SupportVectorVote{counts}, std::move(inputs), {"class", "scores"});
  const ValueId label = labels_at(c, labels, outputs[0]);
  const PostTransform transform = post_transform(c);
  if (has_probabilities || classes > 2) return {label, transformed(c, outputs[1], transform)};
  if (transform == PostTransform::none) return {label, with_negative(c, outputs[1])};
  const bool is_alone = transform == PostTransform::logistic || transform == PostTransform::probit;
  return {label, with_complement(c, is_alone ? transformed(c, outputs[1], transform) : outputs[1])};
}

constexpr Converter linear_models_table[] = {
    {"LinearClassifier", linear_classifier},
    {"LinearRegressor", linear_regressor},
    {"SVMClassifier", svm_classifier},
    {"SVMRegressor", svm_regressor},
};

}  // namespace

std::span<const Converter> linear_model_converters() {
  return linear_models_table;
}

}  // namespace camshaft::onnx
