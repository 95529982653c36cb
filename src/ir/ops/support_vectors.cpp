#include "ir/ops/support_vectors.h"

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

std::vector<Inferred> PairwiseDistance::infer(const InferContext& context) const {
  if (context.rank(0) != 2 || context.rank(1) != 2) fail_rule("distances are of the rows of two matrices");
  if (context.dtype(0) != context.dtype(1) || (context.dtype(0) != DType::f32 && context.dtype(0) != DType::f64))
    fail_rule("distances are of two matrices of f32 or f64");
  same_size(context.shape(0)[1], context.shape(1)[1], "distances", 1);
  return {Inferred{{context.dtype(0), {context.shape(0)[0], context.shape(1)[0]}}}};
}

std::vector<Inferred> SupportVectorVote::infer(const InferContext& context) const {
  const auto classes = static_cast<int64_t>(vectors_per_class.size());
  if (classes < 2 || classes > 65535) fail_rule("support vectors of {} classes", classes);
  int64_t vectors = 0;
  for (const int64_t count : vectors_per_class)
    if (count < 0 || __builtin_add_overflow(vectors, count, &vectors)) fail_rule("{} vectors of one class", count);
  const int64_t pairs = classes * (classes - 1) / 2;
  const auto expect = [&](size_t i, const Shape& shape, const char* what) {
    const TensorType want{DType::f32, shape};
    if (context.type(i) != want)
      fail_rule("support_vector_vote: {} must be {}, not {}", what, to_string(want), to_string(context.type(i)));
  };
  if (context.rank(0) != 2) fail_rule("support_vector_vote: the kernel's values must be a matrix");
  const Dim rows = context.shape(0)[0];
  expect(0, {rows, vectors}, "the kernel's values");
  expect(1, {classes - 1, vectors}, "the coefficients");
  expect(2, {pairs}, "rho");
  if (context.has(3) != context.has(4)) fail_rule("prob_a and prob_b come together");
  if (context.has(3)) expect(3, {pairs}, "prob_a"), expect(4, {pairs}, "prob_b");
  return {Inferred{{DType::i64, {rows}}}, Inferred{{DType::f32, {rows, context.has(3) ? classes : pairs}}}};
}

std::vector<Inferred> ScoreTransform::infer(const InferContext& context) const {
  if (context.dtype(0) != DType::f32 || context.rank(0) < 1) fail_rule("scores must be rows of f32");
  return {Inferred{context.type(0)}};
}

}  // namespace camshaft::ops
