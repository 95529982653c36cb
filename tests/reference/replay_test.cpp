#include "reference/replay.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/ops/index.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "reference/derived_constant.h"
#include "reference/named_constants.h"
#include "reference/random_tensor.h"
#include "test_random.h"

namespace camshaft::replay_test {
namespace {

ThreadPool& pool() {
  static ThreadPool pool(2);
  return pool;
}

class Model {
 public:
  Constant add(const std::string& name, Tensor tensor) {
    tensors_[name] = tensor;
    auto provenance = Provenance::initializer(name, tensor);
    return {std::make_shared<const Tensor>(std::move(tensor)), std::move(provenance)};
  }
  void set(const std::string& name, Tensor tensor) { tensors_[name] = std::move(tensor); }
  Tensor redo(const Constant& constant) const {
    return replay(
        *constant.provenance,
        [&](const std::string& name) { return tensors_.contains(name) ? tensors_.at(name) : Tensor(); }, pool());
  }

 private:
  NamedConstants tensors_;
};

void expect_error(ErrorCode code, const std::string& what, const std::function<void()>& run) {
  try {
    run();
    ADD_FAILURE() << "no error; expected: " << what;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code);
    EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
  }
}

TEST(Replay, OperatorsOneAfterAnother) {
  Random random = test_random();
  Model model;
  const Constant w = model.add("w", random_tensor(random, DType::f32, {6, 4}));
  const Constant b = model.add("b", random_tensor(random, DType::f32, {4}));
  const auto make = [&](const Constant& weights, const Constant& bias) {
    const Constant scaled = derive(ScalarFunction::mul, {weights, literal(Tensor::scalar(DType::f32, 0.3))}, pool());
    const Constant row = derive_reshaped(bias, {1, 4}, pool());
    const Constant joined = derive(ops::Concat{0}, {scaled, row}, pool());
    return derive_converted(derive(ops::Transpose{{1, 0}}, {joined}, pool()), DType::f16);
  };
  const Constant made = make(w, b);
  EXPECT_EQ(initializer_names(*made.provenance), (std::set<std::string>{"b", "w"}));
  EXPECT_TRUE(model.redo(made) == *made.tensor);
  // Of other numbers it is what they would have given.
  const Constant v = model.add("w", random_tensor(random, DType::f32, {6, 4}));
  EXPECT_TRUE(model.redo(made) == *make(v, b).tensor);
  EXPECT_FALSE(model.redo(made) == *made.tensor);
}

TEST(Replay, OneOfSeveralResultsAndOmittedOperands) {
  Model model;
  const Constant w = model.add("w", Tensor::of<float>(DType::f32, {4}, {3, 1, 4, 2}));
  const ops::Slice slice{{0}, {1}, {2}, {1}};
  EXPECT_TRUE(model.redo(derive(slice, {w}, pool())) == Tensor::of<float>(DType::f32, {2}, {1, 4}));
  const Constant padded = derive(ops::Pad{.pads = {1, 0}}, {w, Constant{}}, pool());
  EXPECT_EQ(padded.provenance->operands()[1], nullptr);
  EXPECT_TRUE(model.redo(padded) == Tensor::of<float>(DType::f32, {5}, {0, 3, 1, 4, 2}));
}

TEST(Replay, WhatIsMissingOrOfAnotherTypeIsNamed) {
  Model model;
  const Constant w = model.add("w", Tensor(DType::f32, {2, 3}));
  const Constant negative = derive(ScalarFunction::neg, {w}, pool());
  model.set("w", Tensor(DType::f32, {3, 2}));
  expect_error(ErrorCode::invalid_argument, "the initializer 'w' is f32[3, 2], f32[2, 3] is needed",
               [&] { model.redo(negative); });
  model.set("w", Tensor(DType::f16, {2, 3}));
  expect_error(ErrorCode::invalid_argument, "f16[2, 3]", [&] { model.redo(negative); });
  model.set("w", Tensor());
  expect_error(ErrorCode::invalid_argument, "'w' is missing", [&] { model.redo(negative); });
}

TEST(Replay, WhatWasEqualHasToStaySo) {
  Model model;
  const Constant a = model.add("a", Tensor::scalar(DType::f32, 3)), b = model.add("b", Tensor::scalar(DType::f32, 3));
  const Constant both{a.tensor, Provenance::equal({a, b})};
  model.set("a", Tensor::scalar(DType::f32, 4));
  expect_error(ErrorCode::invalid_argument, "initializers a, b", [&] { model.redo(both); });
  model.set("b", Tensor::scalar(DType::f32, 4));
  EXPECT_TRUE(model.redo(both) == Tensor::scalar(DType::f32, 4));
}

TEST(Replay, TheReasonIsGiven) {
  Model model;
  const Constant a = model.add("a", Tensor::scalar(DType::f32, 3));
  const Constant unknown{a.tensor, Provenance::unknown("a number that was read off", {a})};
  expect_error(ErrorCode::unsupported, "a number that was read off",
               [&] { model.redo(derive(ScalarFunction::neg, {unknown}, pool())); });
}

TEST(Replay, SharedPartsAreComputedOnce) {
  Model model;
  Constant x = model.add("w", Tensor::scalar(DType::f32, 0x1p-100));
  for (int i = 0; i < 100; ++i) x = derive(ScalarFunction::add, {x, x}, pool());
  EXPECT_TRUE(model.redo(x) == Tensor::scalar(DType::f32, 1));
}

// What is computed in one pass is what the recorded operators give.
TEST(DerivedConstant, ProductsAsOperators) {
  Random random = test_random();
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    Model model;
    const Constant w = model.add("w", random_tensor(random, dtype, {5, 3, 2, 2}));
    const Constant rows = model.add("rows", random_tensor(random, DType::f64, {5, 1, 1, 1}));
    const Constant columns = model.add("columns", random_tensor(random, DType::f64, {3, 1, 1}));
    const Constant three = literal(Tensor::scalar(DType::f64, 3));
    const Constant own = literal(random_tensor(random, dtype, {5, 3, 2, 2}));
    for (const Constant& x : {w, own})
      for (const std::vector<Constant>& factors :
           {std::vector{rows}, {rows, columns}, {three, columns}, {three, three, rows}}) {
        const ConstantProduct product = derive_product(x, factors, pool());
        EXPECT_TRUE(model.redo(product.constant) == *product.constant.tensor) << to_string(dtype);
        double largest = 0;
        for (const double v : product.constant.tensor->to_doubles()) largest = std::max(largest, std::abs(v));
        EXPECT_NEAR(product.largest, largest, 0.01 * largest);
      }
    EXPECT_EQ(derive_product(own, {three}, pool()).constant.provenance, nullptr);
  }
}

TEST(DerivedConstant, ConversionsAsCasts) {
  // Among all bit patterns there are numbers beyond the range, infinities, NaNs and subnormal ones.
  Random random = test_random();
  Tensor any(DType::f32, {100000});
  for (int64_t i = 0; i < any.size(); ++i)
    any.as_mutable<uint32_t>()[i] = static_cast<uint32_t>(random.integer(0, 0xffffffffLL));
  Model model;
  const Constant w = model.add("w", any);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    const Constant made = derive_converted(w, dtype);
    EXPECT_TRUE(model.redo(made) == *made.tensor) << to_string(dtype);
    const Constant narrow = model.add("narrow", *made.tensor);
    const Constant wide = derive_converted(narrow, DType::f32);
    EXPECT_TRUE(model.redo(wide) == *wide.tensor) << to_string(dtype);
  }
}

}  // namespace
}  // namespace camshaft::replay_test
