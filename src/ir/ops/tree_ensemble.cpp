#include "ir/ops/tree_ensemble.h"

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

constexpr int64_t largest_targets = 1 << 24;

}  // namespace

std::vector<Inferred> TreeEnsemble::infer(const InferContext& context) const {
  if (context.rank(x_in) != 2) fail_rule("tree_ensemble: the input has {} axes, not 2", context.rank(x_in));
  if (!is_floating(context.dtype(x_in)))
    fail_rule("tree_ensemble: the input must be floating-point, not {}", to_string(context.dtype(x_in)));
  const DType dtype = context.dtype(threshold_in);
  if (dtype != DType::f32 && dtype != DType::f64) fail_rule("tree_ensemble: thresholds must be f32 or f64");
  if (targets < 1 || targets > largest_targets) fail_rule("tree_ensemble: {} targets", targets);
  const auto expect = [&](size_t i, DType want, const Shape& shape, const char* what) {
    if (context.dtype(i) != want || context.shape(i) != shape)
      fail_rule("tree_ensemble: {} must be {}, not {}", what, to_string(TensorType{want, shape}),
                to_string(context.type(i)));
  };
  const auto length = [&](size_t i) { return context.rank(i) == 1 ? context.shape(i)[0] : Dim(-1); };
  const Dim n = length(threshold_in);
  expect(threshold_in, dtype, {n}, "thresholds");
  expect(compare_in, DType::u8, {n}, "comparisons");
  expect(feature_in, DType::i32, {n}, "features");
  expect(child_in, DType::i32, {n, 2}, "children");
  expect(root_in, DType::i32, {length(root_in)}, "roots");
  expect(start_in, DType::i32, {length(start_in)}, "leaf starts");
  const auto starts = length(start_in).as_constant();
  if (!starts || *starts < 1) fail_rule("tree_ensemble: leaf starts are missing");
  expect(weight_in, dtype, {length(weight_in)}, "leaf weights");
  expect(target_in, DType::i32, {length(weight_in)}, "leaf targets");
  expect(base_in, dtype, {length(base_in)}, "base values");
  if (context.has(set_start_in)) {
    expect(set_start_in, DType::i32, {n + 1}, "set starts");
    expect(set_member_in, dtype, {length(set_member_in)}, "set members");
  }
  const Dim rows = context.shape(x_in)[0];
  Inferred scores{{dtype, {rows, targets}}};
  if (task == TreeTask::regression) return {scores};
  return {Inferred{{DType::i64, {rows}}}, scores};
}

}  // namespace camshaft::ops
