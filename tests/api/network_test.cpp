// Networks through the C++ layer, and so through the C interface.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "camshaft/camshaft.hpp"

namespace camshaft::network_test {
namespace {

BuildOptions quick() {
  return std::move(BuildOptions().set("tuning", "heuristic"));
}

/// What a call fails with.
template <class Call>
std::string failure(const Call& call, ErrorCode code = ErrorCode::invalid_argument) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "nothing failed";
}

TEST(Network, BuildsAndRuns) {
  const Tensor weights = Tensor::of<float>(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  Network net;
  const NetworkValue x = net.input("x", DType::f32, {"batch", 2});
  const NetworkValue y = net("Relu", {net("MatMul", {x, net.constant(weights)})});
  const std::vector<NetworkValue> best =
      net.add("TopK", {y, net.constant(Tensor::of<int64_t>(DType::i64, {1}, {1}))}, {{"axis", -1}, {"largest", 1}}, 2);
  net.output(y, "y");
  net.output(best[1], "best");
  const Engine engine = Builder(quick()).build(net);

  EXPECT_EQ(y.dims, (Dims{-1, 3}));
  EXPECT_EQ(y.dim_names, (std::vector<std::string>{"batch", "3"}));
  EXPECT_EQ(best[1].type, "i64[batch, 1]");
  EXPECT_EQ(engine.metadata().at("model"), "network");
  Context context = engine.create_context();
  const std::vector<float> data = {1, -1};
  context.set_input("x", {1, 2}, data.data());
  context.run();
  EXPECT_EQ(context.output("y"), Tensor::of<float>(DType::f32, {1, 3}, {0, 0, 0}));
  EXPECT_EQ(context.output("best"), Tensor::of<int64_t>(DType::i64, {1, 1}, {0}));
}

TEST(Network, TheFileIsTheSameModel) {
  Network net("doubling", 21);
  net.output(net("Add", {net.input("x", DType::f32, {2}), NetworkValue{.name = "x"}}), "y");
  const std::vector<std::byte> file = net.to_onnx();
  const Engine of_file = Builder(quick()).build(file, "doubling"), of_network = Builder(quick()).build(net);
  for (const Engine* engine : {&of_file, &of_network}) {
    EXPECT_EQ(engine->metadata().at("opset"), "21");
    EXPECT_EQ(engine->layers().size(), of_file.layers().size());
    Context context = engine->create_context();
    const std::vector<float> data = {1.5F, -1};
    context.set_input("x", {2}, data.data());
    context.run();
    EXPECT_EQ(context.output("y"), Tensor::of<float>(DType::f32, {2}, {3, -2}));
  }
}

TEST(Network, BodiesSeeWhatIsAroundThem) {
  Network net;
  const NetworkValue x = net.input("x", DType::f32, {3}), positive = net.input("positive", DType::boolean, {});
  Network yes = net.subgraph("yes"), no = net.subgraph("no");
  yes.output(yes("Abs", {x}));
  no.output(x);
  net.output(net("If", {positive}, {{"then_branch", &yes}, {"else_branch", &no}}), "y");
  Context context = Builder(quick()).build(net).create_context();
  const std::vector<float> data = {1, -2, 3};
  for (const bool is_positive : {true, false}) {
    context.set_input("x", {3}, data.data());
    const Tensor condition = Tensor::of<uint8_t>(DType::boolean, {}, {static_cast<uint8_t>(is_positive)});
    context.set_input("positive", condition);
    context.run();
    EXPECT_EQ(context.output("y").as<float>()[1], is_positive ? 2 : -2);
  }
}

TEST(Network, AttributesOfAllKinds) {
  Network net;
  const NetworkValue x = net.input("x", DType::f32, {2, 3});
  const Tensor seven = Tensor::of<float>(DType::f32, {1}, {7});
  EXPECT_EQ(net("LeakyRelu", {x}, {{"alpha", 0.5}}).type, "f32[2, 3]");
  EXPECT_EQ(net("Transpose", {x}, {{"perm", std::vector<int64_t>{1, 0}}}).type, "f32[3, 2]");
  EXPECT_EQ(net("Einsum", {x, x}, {{"equation", "ij,kj->ik"}}).type, "f32[2, 2]");
  EXPECT_EQ(net("ConstantOfShape", {net("Shape", {x})}, {{"value", seven}}).type, "f32[2, 3]");
  EXPECT_EQ(net("Optional", {}, {{"type", Attribute::Type{"seq(tensor(float))"}}}).dtype, DType::optional);
  EXPECT_EQ(net("Constant", {}, {{"value_floats", std::vector<float>{1, 2}}}).type, "f32[2]");
  EXPECT_EQ(net("Constant", {}, {{"value_strings", std::vector<std::string>{"a"}}}).type, "string[1]");
  EXPECT_EQ(net("Gelu", {x}, {}, "com.microsoft").type, "f32[2, 3]");
}

TEST(Network, NamesWhatIsWrongAndStaysAsItWas) {
  Network net;
  const NetworkValue x = net.input("x", DType::f32, {"n", 3});
  net.output(net("Relu", {x}), "y");
  const std::vector<std::byte> before = net.to_onnx();
  EXPECT_EQ(failure([&] { net("Rleu", {x}); }),
            "Camshaft has no operator 'Rleu' in operator set 27; did you mean 'Elu' or 'Relu'?");
  EXPECT_EQ(failure([&] { net("Relu", {}); }), "operator Relu needs its input X: it takes X");
  EXPECT_EQ(failure([&] { net("Relu", {x, x}); }), "operator Relu takes the inputs X; 2 are given");
  EXPECT_EQ(failure([&] {
              net("Softmax", {x}, {{"axes", 1}});
            }),
            "operator Softmax has no attribute 'axes'; did you mean 'axis'?");
  EXPECT_EQ(failure([&] {
              net("Softmax", {x}, {{"axis", 1.0}});
            }),
            "attribute 'axis' of operator Softmax is an integer, not a float");
  EXPECT_EQ(failure([&] {
              net("Softmax", {x}, {{"axis", 1}, {"axis", 1}});
            }),
            "attribute 'axis' of operator Softmax is given twice");
  EXPECT_EQ(failure([&] { net("Concat", {x, x}); }), "operator Concat needs its attribute 'axis', an integer");
  EXPECT_EQ(failure([&] { net("Relu", {{.name = "nobody"}}); }), "the network 'network' has no value 'nobody'");
  EXPECT_NE(failure([&] { net("Softmax", {x}, {{"axis", 2}}); }).find("(given input: f32[n, 3])"), std::string::npos);
  EXPECT_EQ(failure([&] { net.input("x", DType::f32, {}); }), "the network 'network' has a value 'x' already");
  EXPECT_EQ(failure([&] { net.input("z", DType::f32, {0}); }),
            "size 0 of input 'z' is 0: give 1 or more, a name, or neither");
  EXPECT_EQ(failure([&] { Network("old", 28); }), "there is no operator set 28: give one from 1 to 27");
  EXPECT_EQ(failure([&] { net.subgraph("body").to_onnx(); }),
            "'body' is a sub-graph: the network around it is the model");
  EXPECT_EQ(failure([&] { Network("empty").to_onnx(); }), "the network 'empty' has no outputs: mark some");
  EXPECT_EQ(failure([&] { net("ImageDecoder", {x}); }).substr(0, 4), "node");
  EXPECT_EQ(net.to_onnx(), before);
}

TEST(Network, AnEngineKeepsTheConstantsOfItsNetwork) {
  static int released;
  released = 0;
  std::vector<float> weights(64 * 64, 1);
  camshaft_network* network = nullptr;
  ASSERT_EQ(camshaft_network_create("kept", 0, &network), CAMSHAFT_OK);
  const int64_t dims[] = {64, 64};
  const Tensor view = Tensor::view(DType::f32, {64, 64}, weights.data(), weights.size() * sizeof(float));
  ASSERT_EQ(camshaft_network_add_input(network, "x", "f32", 2, dims, nullptr, nullptr), CAMSHAFT_OK);
  const auto release = [](void* by) { released += *static_cast<int*>(by); };
  int one = 1;
  ASSERT_EQ(camshaft_network_add_constant(network, "w", view.handle(), release, &one, nullptr), CAMSHAFT_OK);
  // One that fails is given back at once.
  EXPECT_EQ(camshaft_network_add_constant(network, "w", view.handle(), release, &one, nullptr),
            CAMSHAFT_INVALID_ARGUMENT);
  EXPECT_EQ(released, 1);
  const char* const inputs[] = {"x", "w"};
  const char* const outputs[] = {"y"};
  ASSERT_EQ(camshaft_network_add_node(network, "MatMul", nullptr, nullptr, inputs, 2, nullptr, 0, outputs, 1, nullptr),
            CAMSHAFT_OK);
  ASSERT_EQ(camshaft_network_mark_output(network, "y", nullptr), CAMSHAFT_OK);
  camshaft_engine* engine = nullptr;
  ASSERT_EQ(camshaft_build_network(network, nullptr, &engine, nullptr), CAMSHAFT_OK) << camshaft_error_message();
  camshaft_network_free(network);
  camshaft_engine_free(engine);
  EXPECT_EQ(released, 2);
}

}  // namespace
}  // namespace camshaft::network_test
