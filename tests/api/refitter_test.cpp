// Refitting through the C++ layer, and so through the C interface.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "camshaft/camshaft.hpp"

namespace camshaft::refitter_test {
namespace {

Tensor matrix(float scale) {
  return Tensor::of<float>(DType::f32, {2, 3}, {1 * scale, 2 * scale, 3 * scale, 4 * scale, 5 * scale, 6 * scale});
}

Network network_with(float scale) {
  Network net;
  const NetworkValue x = net.input("x", DType::f32, {"batch", 2});
  net.output(net("MatMul", {x, net.constant(matrix(scale), "w")}), "y");
  return net;
}

Engine engine_with(float scale, bool refit = true) {
  const Network net = network_with(scale);
  return Builder(std::move(BuildOptions().set("tuning", "heuristic").set("refit", refit))).build(net);
}

Tensor result(Context& context) {
  static const std::vector<float> data = {1, -1};
  context.set_input("x", {1, 2}, data.data());
  context.run();
  return context.output("y").copy();
}

template <class Call>
std::string failure(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "nothing failed";
}

TEST(Refitter, ContextsTakeTheNewWeights) {
  const Engine engine = engine_with(1);
  EXPECT_TRUE(engine.is_refittable());
  Context context = engine.create_context();
  EXPECT_EQ(result(context), Tensor::of<float>(DType::f32, {1, 3}, {-3, -3, -3}));
  Refitter refitter(engine);
  ASSERT_EQ(refitter.weights().size(), 1U);
  EXPECT_EQ(refitter.weights()[0].name, "w");
  EXPECT_EQ(refitter.weights()[0].dims, (Dims{2, 3}));
  EXPECT_EQ(refitter.weights()[0].layers.size(), 1U);
  EXPECT_FALSE(refitter.weights()[0].is_set);
  refitter.set("w", matrix(2));
  EXPECT_TRUE(refitter.weights()[0].is_set);
  EXPECT_TRUE(refitter.missing().empty());
  EXPECT_EQ(result(context), Tensor::of<float>(DType::f32, {1, 3}, {-3, -3, -3}));
  refitter.refit(1);
  EXPECT_EQ(result(context), Tensor::of<float>(DType::f32, {1, 3}, {-6, -6, -6}));
  EXPECT_EQ(engine.save(), engine_with(2).save());
}

TEST(Refitter, WrongWeightsAreRefused) {
  const Engine engine = engine_with(1);
  Refitter refitter(engine);
  EXPECT_NE(failure([&] { refitter.set("v", matrix(2)); }).find("no initializer 'v'"), std::string::npos);
  EXPECT_NE(failure([&] { refitter.set("w", Tensor::of<float>(DType::f32, {1}, {1})); }).find("f32[2, 3]"),
            std::string::npos);
  EXPECT_NE(failure([&] { refitter.refit(-1); }).find("-1 threads"), std::string::npos);
  EXPECT_NE(failure([&] { refitter.refit(100000); }).find("100000 threads were asked for; give 1 to"),
            std::string::npos);
  EXPECT_NE(failure([&] { const Refitter other(engine_with(1, false)); }).find("--refit"), std::string::npos);
  EXPECT_NE(camshaft_refitter_create(nullptr, nullptr), CAMSHAFT_OK);
}

TEST(Refitter, KeepsTheEngine) {
  auto engine = std::make_unique<Engine>(engine_with(1));
  Refitter refitter(*engine);
  engine.reset();
  refitter.set("w", matrix(3));
  refitter.refit();
}

TEST(Refitter, WeightsOfAModelInMemory) {
  const Engine engine = engine_with(1);
  const std::vector<std::byte> model = network_with(2).to_onnx();
  const NamedTensors weights = model_weights(model);
  ASSERT_EQ(weights.size(), 1U);
  EXPECT_EQ(weights[0].first, "w");
  EXPECT_EQ(weights[0].second, matrix(2));
  EXPECT_TRUE(model_weights(model, {}, {{"v"}}).empty());
  EXPECT_EQ(model_weights(model, {}, {{"v", "w"}}).size(), 1U);
  Refitter refitter(engine);
  refitter.set(weights[0].first, weights[0].second);
  refitter.refit(1);
  EXPECT_EQ(engine.save(), engine_with(2).save());
  EXPECT_THROW(model_weights(std::span(model).first(9)), Error);
  EXPECT_NE(failure([] { model_weights({}); }).find("model"), std::string::npos);
}

TEST(Refitter, EnginesAreSavedWithWeightsOrWithout) {
  const Engine engine = engine_with(1);
  const std::vector<std::byte> without = engine.save_with(false);
  EXPECT_LT(without.size(), engine.save().size());
  EXPECT_EQ(engine.save_with(true), engine.save());
  const Engine stripped = Engine::load(without);
  EXPECT_NE(failure([&] { stripped.save_with(true); }).find("the engine has no weights"), std::string::npos);
  EXPECT_EQ(stripped.save_with(false), without);
  Refitter refitter(stripped);
  refitter.set("w", matrix(2));
  refitter.refit(1);
  EXPECT_EQ(stripped.save(), stripped.save_with(true)) << "as it has them now";
  EXPECT_EQ(stripped.save_with(false), without);
  Context context = Engine::load(stripped.save_with(true)).create_context();
  EXPECT_EQ(result(context), Tensor::of<float>(DType::f32, {1, 3}, {-6, -6, -6}));
  EXPECT_NE(failure([] { engine_with(1, false).save_with(false); }).find("not built to be refitted"),
            std::string::npos);
}

}  // namespace
}  // namespace camshaft::refitter_test
