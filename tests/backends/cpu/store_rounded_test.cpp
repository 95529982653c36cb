// Products that read rows of bf16 and store such: the same bits as of rows and results of f32 that are rounded outside.
#include "backends/cpu/passes/store_rounded.h"

#include "backends/cpu/conv_problem.h"
#include "backends/cpu/each_product_of_pairs.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"
#include "optimize/outline.h"
#include "optimize/pass_test.h"

namespace camshaft::cpu::store_rounded_test {
namespace {

TensorType type_of(const Tensor& t) {
  return {t.dtype(), Shape(t.dims().begin(), t.dims().end())};
}

Tensor as_bf16(const Tensor& t) {
  Tensor out(DType::bf16, t.dims());
  for (int64_t i = 0; i < t.size(); ++i) out.as_mutable<BFloat>()[i] = to_bfloat(t.as<float>()[i]);
  return out;
}

// The same numbers in f32.
Tensor widened(const Tensor& t) {
  Tensor out(DType::f32, t.dims());
  for (int64_t i = 0; i < t.size(); ++i) out.as_mutable<float>()[i] = to_float(t.as<BFloat>()[i]);
  return out;
}

Tensor rounded(const Tensor& t) {
  return widened(as_bf16(t));
}

// A product with what follows it.
struct Layer {
  Op op;
  std::vector<Tensor> operands;  // x of bf16, weights, maybe a bias
  Dims result;
  bool residual = false, relu = false;
  int activation = 0;  // nothing, one that kernels have, others on blocks with a number a row
  std::string tactic;

  static Layer random(RandomData& data, Op op, std::vector<Tensor> operands, std::string tactic) {
    Layer layer{std::move(op),    std::move(operands), {},
                data.coin(),      data.coin(),         static_cast<int>(data.integer(0, 2)),
                std::move(tactic)};
    Graph graph;
    std::vector<ValueId> ids;
    for (const Tensor& t : layer.operands) ids.push_back(graph.add_input("i", type_of(t)));
    for (const Dim& d : graph.shape(graph.add(layer.op, ids, "c"))) layer.result.push_back(d.value());
    if (layer.residual) layer.operands.push_back(floats(data, layer.result));
    if (layer.activation == 2) {
      Dims numbers = layer.result;
      numbers.back() = 1;
      layer.operands.push_back(floats(data, numbers));
    }
    return layer;
  }

  // With x of bf16, or the same in f32; giving bf16, or f32.
  NodeTest test(bool rounded, bool stores) const {
    std::vector<Tensor> given = operands;
    if (!rounded) given[0] = widened(given[0]);
    Graph body;
    std::vector<ValueId> ids;
    for (const Tensor& t : given) ids.push_back(body.add_input("i", type_of(t)));
    const size_t own = ids.size() - (residual ? 1 : 0) - (activation == 2 ? 1 : 0);
    const auto add = [&](ScalarFunction f, std::vector<ValueId> of) { return body.add(ops::Pointwise{f}, of, "p"); };
    ValueId y = body.add(op, {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(own)}, "c");
    if (residual) y = add(ScalarFunction::add, {y, ids[own]});
    if (relu) y = add(ScalarFunction::max, {y, body.add_constant("zero", Tensor::scalar(DType::f32, 0))});
    if (activation == 1) y = add(ScalarFunction::mul, {y, add(ScalarFunction::sigmoid, {y})});
    if (activation == 2) y = add(ScalarFunction::mul, {add(ScalarFunction::sin, {y}), ids.back()});
    if (stores) y = body.add(ops::Cast{DType::bf16}, {y}, "s");
    body.add_output("y", y);
    std::vector<size_t> known{1};
    if (own == 3) known.push_back(2);
    // Of rows in f32 a bias and a residual may be added up in other orders than the reference has.
    NodeTest test(ops::Region{ops::RegionKind::contract}, given, known, tactic, stores ? 1e-2 : 1e-5);
    test.bodies = {body};
    return test;
  }
};

void check(const Layer& layer, int threads) {
  const NodeTest plain = layer.test(false, false);
  const Tensor expected = plain.run(1).at(0), narrow = as_bf16(expected);
  for (const int count : {1, threads}) {
    SCOPED_TRACE(to_string(layer.op) + " to " + to_string(layer.result) + ", " + std::to_string(count) + " threads");
    ASSERT_TRUE(layer.test(true, false).run(count).at(0) == expected) << "rows of bf16";
    ASSERT_TRUE(layer.test(false, true).run(count).at(0) == narrow) << "a result of bf16";
    ASSERT_TRUE(layer.test(true, true).run(count).at(0) == narrow) << "both";
  }
}

// And what the reference has.
void check_both(const Layer& layer, int threads) {
  check(layer, threads);
  layer.test(true, true).check(threads);
}

TEST(StoreRounded, MatrixProducts) {
  RandomData data;
  for_each_product_of_pairs([&] {
    for (int round = 0; round < 60; ++round) {
      const int64_t m = round % 5 == 0 ? 1 : data.integer(round % 7 == 0 ? 0 : 1, 230);
      const int64_t n = data.integer(1, round % 3 == 0 ? 700 : 90);
      const int64_t k = 2 * data.integer(0, round % 4 == 0 ? 900 : 60);
      const bool transposed = data.coin();
      const Tensor x = as_bf16(floats(data, round % 2 ? Dims{m, k} : Dims{2, m, k}));
      const Tensor w = rounded(floats(data, transposed ? Dims{n, k} : Dims{k, n}));
      check_both(Layer::random(data, ops::MatMul{.transpose_b = transposed, .rounding = ops::Rounding::bf16}, {x, w},
                               "gemm_bf16"),
                 2 + round % 4);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(StoreRounded, Convolutions) {
  RandomData data;
  for_each_product_of_pairs([&] {
    for (int round = 0; round < 60; ++round) {
      ConvProblem p = random_problem(data, static_cast<size_t>(1 + round % 3), 1, 2 * data.integer(1, 30),
                                     data.integer(1, round % 7 == 0 ? 90 : 20));
      p.op.rounding = ops::Rounding::bf16;
      std::vector<Tensor> operands{as_bf16(p.x), rounded(p.weights)};
      if (p.bias.defined()) operands.push_back(p.bias);
      check_both(Layer::random(data, p.op, operands, "conv_bf16"), 2 + round % 4);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(StoreRounded, SpecialsAndHugeNumbers) {
  RandomData data;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for_each_product_of_pairs([&] {
    for (int round = 0; round < 30; ++round) {
      const int64_t m = data.integer(1, 40), n = data.integer(1, 90), k = 2 * data.integer(1, 40);
      Tensor x = floats(data, {m, k}), w = floats(data, {k, n});
      for (const float special : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity, 3e38F, 1e-40F})
        x.as_mutable<float>()[data.integer(0, x.size() - 1)] = special;
      Layer layer = Layer::random(data, ops::MatMul{.rounding = ops::Rounding::bf16}, {as_bf16(x), w}, "gemm_bf16");
      layer.activation = 0;
      layer.operands.resize(layer.residual ? 3 : 2);
      check(layer, 1 + round % 3);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// An engine that was built with products of bf16, on a machine that has none.
TEST(StoreRounded, MachinesWithoutProductsOfPairsWiden) {
  RandomData data;
  for_each_target([&] {
    set_matrix_unit_for_test(MatrixUnit::none);
    for (int round = 0; round < 20 && !has_bf16_products(); ++round) {
      const Tensor x = as_bf16(floats(data, {data.integer(1, 70), 2 * data.integer(0, 90)}));
      const Tensor w = floats(data, {x.dims()[1], data.integer(1, 150)});
      check_both(Layer::random(data, ops::MatMul{.rounding = ops::Rounding::bf16}, {x, w}, "gemm"), 1 + round % 5);
      ConvProblem p = random_problem(data, static_cast<size_t>(1 + round % 3), 1, 2 * data.integer(1, 20), 20);
      p.op.rounding = ops::Rounding::bf16;
      check_both(Layer::random(data, p.op, {as_bf16(p.x), p.weights}, "conv"), 1 + round % 5);
      if (testing::Test::HasFatalFailure()) break;
    }
    reset_matrix_unit_for_test();
  });
}

Graph stored(const std::string& body, const std::string& inputs = "%x: f32[8, 32]") {
  Graph graph = graph_of(inputs, body);
  PassContext context = test_context();
  context.rounding = ops::Rounding::bf16;
  run_pass_on_named(store_rounded, graph, context, "the pass under test");
  verify(graph, "the pass under test");
  return graph;
}

DType dtype_of(const Graph& graph, const std::string& name) {
  for (const Value& value : graph.values)
    if (value.name == name) return value.type.dtype;
  ADD_FAILURE() << "no value " << name;
  return DType::f32;
}

TEST(StoreRounded, WhatOnlyProductsReadIsRoundedWhereItIsWritten) {
  const Graph graph = stored(R"(
    const %w: f32[32, 32] = 0.5
    const %one: f32[] = 1
    %p = pointwise {function=add} (%x, %one)
    %a = region {kind=contract} (%p, %w)
      graph (%i: f32[8, 32], %v: f32[32, 32]) {
        %m = matmul {rounding=bf16} (%i, %v)
        %e = pointwise {function=tanh} (%m)
        return %e
      }
    %b = matmul {rounding=bf16} (%a, %w)
    %c = matmul {rounding=bf16} (%b, %w)
    return "c" = %c)");
  EXPECT_EQ(outline(graph),
            "pointwise(pointwise, cast), contract(matmul, pointwise, cast), contract(matmul, cast), matmul");
  for (const char* const name : {"p", "a", "b"}) EXPECT_EQ(dtype_of(graph, name), DType::bf16) << name;
  EXPECT_EQ(dtype_of(graph, "c"), DType::f32);
}

TEST(StoreRounded, WhatSomethingElseReadsStaysAsItIs) {
  const std::string begin = R"(
    const %w: f32[32, 32] = 0.5
    const %odd: f32[32, 31] = 0.5
    const %of_odd: f32[31, 8] = 0.5
    %a = matmul {rounding=bf16} (%x, %w)
)";
  for (const std::string rest : {
           R"(%b = matmul {rounding=bf16} (%a, %w)
              %c = pointwise {function=add} (%a, %b)
              return "c" = %c)",
           R"(%b = matmul {rounding=bf16} (%a, %w)
              return "b" = %b, "a" = %a)",
           R"(%b = matmul (%a, %w)
              return "b" = %b)",
           R"(%b = matmul {transpose_a=true, rounding=bf16} (%a, %a)
              return "b" = %b)",
           R"(%b = matmul {transpose_b=true, rounding=bf16} (%a, %a)
              return "b" = %b)",
           R"(%b = region {kind=contract} (%a, %w)
                graph (%i: f32[8, 32], %v: f32[32, 32]) {
                  %m = matmul {rounding=bf16} (%i, %v)
                  %e = pointwise {function=add} (%m, %i)
                  return %e
                }
              return "b" = %b)",
           R"(%o = matmul {rounding=bf16} (%x, %odd)
              %b = matmul {rounding=bf16} (%o, %of_odd)
              return "a" = %a, "b" = %b)",
       })
    EXPECT_TRUE(equal(stored(begin + rest), graph_of("%x: f32[8, 32]", begin + rest))) << rest;
}

TEST(StoreRounded, ConvolutionsWithoutGroups) {
  const auto body = [](const std::string& groups, const std::string& weights) {
    return R"(
    const %v: f32[32, 32, 1, 1] = 0.5
    const %w: )" +
           weights +
           R"( = 0.5
    %a = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true, rounding=bf16} (%x, %v)
    %b = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=)" +
           groups + R"(, channels_last=true, rounding=bf16} (%a, %w)
    return "b" = %b)";
  };
  const std::string image = "%x: f32[1, 5, 5, 32]";
  EXPECT_EQ(dtype_of(stored(body("1", "f32[8, 32, 3, 3]"), image), "a"), DType::bf16);
  EXPECT_EQ(dtype_of(stored(body("2", "f32[8, 16, 3, 3]"), image), "a"), DType::f32);
}

}  // namespace
}  // namespace camshaft::cpu::store_rounded_test
