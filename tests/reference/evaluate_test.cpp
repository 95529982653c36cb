#include "reference/evaluate.h"

#include "ir/ops/operators.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/region.h"
#include "ir/ops/select.h"
#include "ir/text.h"
#include "reference/single_op.h"

namespace camshaft::evaluate_test {
namespace {

using F = ScalarFunction;
using ops::Pointwise;
using ops::Region;

// relu(a + b) with b of twice the length that a names
struct Chain {
  Graph graph;
  Chain() {
    const Dim n = Dim::symbol("n");
    const ValueId b = graph.add_input("b", {DType::f32, {Dim(2) * n, 3}});
    const ValueId a = graph.add_input("a", {DType::f32, {n, 3}});
    const ValueId sum = graph.add(ops::Reduce{ops::ReduceKind::sum, {0}, true}, {b}, "sum", {"reduce_1"});
    const ValueId added = graph.add(Pointwise{F::add}, {a, sum}, "added", {"add_1"});
    const ValueId zero = graph.add_constant("zero", Tensor::scalar(DType::f32, 0));
    graph.add_output("y", graph.add(Pointwise{F::max}, {added, zero}, "y"));
    graph.add_output("b again", b);
  }
};

TEST(Evaluate, RunsAChainAndBindsSymbols) {
  const Chain chain;
  const Tensor a = f32({1, 3}, {1, -20, 3}), b = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  const std::vector<Tensor> out = evaluate(chain.graph, {b, a}, test_pool());
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0], f32({1, 3}, {6, 0, 12}));
  EXPECT_EQ(out[1], b);
}

TEST(Evaluate, ObserverSeesEveryNode) {
  const Chain chain;
  std::vector<std::string> seen;
  EvaluateOptions options;
  options.observer = [&](const Node& node, const std::vector<Tensor>& outputs) {
    seen.push_back(std::string(node.op.name()) + to_string(outputs.at(0).dims()));
  };
  evaluate(chain.graph, {Tensor(DType::f32, {4, 3}), Tensor(DType::f32, {2, 3})}, test_pool(), options);
  EXPECT_EQ(seen, (std::vector<std::string>{"reduce[1, 3]", "pointwise[2, 3]", "pointwise[2, 3]"}));
}

// Bytes that an operator lets go are free before the next one runs.
TEST(Evaluate, FreesWhatIsNoLongerNeeded) {
  Graph graph;
  ValueId x = graph.add_input("x", {DType::f32, {4}});
  for (int i = 0; i < 4; ++i) x = graph.add(Pointwise{F::neg}, {x}, "x");
  graph.add_output("y", x);
  std::vector<std::weak_ptr<const void>> owners;
  EvaluateOptions options;
  options.observer = [&](const Node&, const std::vector<Tensor>& outputs) {
    if (owners.size() >= 2) {
      EXPECT_TRUE(owners[owners.size() - 2].expired()) << owners.size();
    }
    owners.push_back(outputs[0].owner());
  };
  const std::vector<Tensor> out = evaluate(graph, {f32({4}, {1, 2, 3, 4})}, test_pool(), options);
  EXPECT_EQ(out[0], f32({4}, {1, 2, 3, 4}));
  EXPECT_EQ(owners.size(), 4u);
}

TEST(Evaluate, WrongInputs) {
  const Chain chain;
  const auto message = [&](const std::vector<Tensor>& inputs) {
    return error_of([&] { evaluate(chain.graph, inputs, test_pool()); });
  };
  const Tensor a(DType::f32, {1, 3}), b(DType::f32, {2, 3});
  EXPECT_NE(message({b}).find("takes 2 inputs, got 1"), std::string::npos);
  EXPECT_NE(message({b, Tensor()}).find("input 'a' is missing"), std::string::npos);
  EXPECT_NE(message({b, Tensor(DType::f64, {1, 3})}).find("input 'a' is f64, expected f32"), std::string::npos);
  EXPECT_NE(message({b, Tensor(DType::f32, {1, 4})}).find("input 'a' has the shape [1, 4], expected [n, 3]"),
            std::string::npos);
  EXPECT_NE(message({Tensor(DType::f32, {3, 3}), a}).find("axis 0 must be 2"), std::string::npos);
  EXPECT_NE(message({b, Tensor(DType::f32, {3})}).find("rank 2"), std::string::npos);
}

TEST(Evaluate, RunTimeErrorsNameTheNode) {
  Graph graph;
  const ValueId a = graph.add_input("a", {DType::f32, {Dim::symbol("n")}});
  const ValueId b = graph.add_input("b", {DType::f32, {Dim::symbol("m")}});
  graph.add_output("y", graph.add(Pointwise{F::add}, {a, b}, "y", {"the_add"}));
  const std::string message = error_of([&] {
    evaluate(graph, {Tensor(DType::f32, {2}), Tensor(DType::f32, {3})}, test_pool());
  });
  EXPECT_NE(message.find("the_add"), std::string::npos) << message;
  EXPECT_NE(message.find("cannot broadcast"), std::string::npos) << message;
}

TEST(Evaluate, BindSymbols) {
  SymbolBindings bindings;
  bind_symbols({Dim::symbol("n"), Dim::symbol("n") + Dim(1)}, {4, 5}, "x", bindings);
  EXPECT_EQ(bindings.at("n"), 4);
  EXPECT_NE(error_of([&] { bind_symbols({Dim::symbol("n")}, {5}, "y", bindings); }).find("'n' is already 4"),
            std::string::npos);
}

// A result whose size only running tells binds its symbol for what follows.
TEST(Evaluate, DataDependentSizes) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {4}});
  const ValueId places = graph.add(ops::NonZero{}, {x}, "places");
  graph.add_output("y", graph.add(Pointwise{F::add}, {places, places}, "y"));
  EXPECT_EQ(evaluate(graph, {f32({4}, {1, -1, 0, 3})}, test_pool())[0], i64({1, 3}, {0, 2, 6}));
}

// An operator from elsewhere: the list of all operators does not have it.
struct Stranger {
  static constexpr std::string_view name = "stranger";
  static constexpr Traits traits = opaque_traits;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const Stranger&) const = default;
  std::vector<Inferred> infer(const InferContext& c) const { return {{c.type(0)}}; }
  std::vector<Tensor> evaluate(const EvalContext& c) const { return {c.input(0)}; }
};

TEST(Evaluate, OnlyOperatorsOfTheList) {
  Graph graph;
  graph.add_output("y", graph.add(Stranger{}, {graph.add_input("x", {DType::f32, {1}})}, "y", {"who"}));
  const std::string message = error_of([&] { evaluate(graph, {f32({1}, {1})}, test_pool()); });
  EXPECT_NE(message.find("node 'who'"), std::string::npos) << message;
  EXPECT_NE(message.find("'stranger' has no reference evaluation"), std::string::npos) << message;
}

TEST(Region, MeansItsBody) {
  const Dim n = Dim::symbol("n");
  Graph body;
  const ValueId a = body.add_input("a", {DType::f32, {n}}), b = body.add_input("b", {DType::f32, {1}});
  const ValueId sum = body.add(Pointwise{F::add}, {a, b}, "sum");
  body.add_output("0", sum);
  body.add_output("1", body.add(Pointwise{F::less}, {sum, b}, "less"));
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {n}}), y = graph.add_input("y", {DType::f32, {1}});
  const auto out = graph.add_node(Region{ops::RegionKind::pointwise}, {x, y}, {"s", "l"}, {}, {body});
  EXPECT_EQ(graph.type(out[1]), (TensorType{DType::boolean, {n}}));
  graph.add_output("s", out[0]);
  graph.add_output("l", out[1]);
  const std::vector<Tensor> results = evaluate(graph, {f32({2}, {1, -2}), f32({1}, {10})}, test_pool());
  EXPECT_EQ(results[0], f32({2}, {11, 8}));
  EXPECT_EQ(results[1], Tensor::of<uint8_t>(DType::boolean, {2}, {0, 1}));
  EXPECT_NE(error_of([&] {
              graph.add_node(Region{}, {y, y}, {"s", "l"}, {}, {body});
            }).find("its body takes f32[n]"),
            std::string::npos);
}

}  // namespace
}  // namespace camshaft::evaluate_test
