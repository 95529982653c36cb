#include "ir/ops/control_flow.h"

#include <gtest/gtest.h>

#include "ir/ops/operators.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "reference/evaluate.h"
#include "reference/single_op.h"

namespace camshaft::control_flow_test {
namespace {

Graph parse(std::string_view text) {
  Graph graph = parse_graph(text, operators());
  verify(graph, "the test");
  return graph;
}

std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& inputs) {
  return evaluate(graph, inputs, test_pool());
}

Tensor boolean(bool value) {
  return Tensor::scalar(DType::boolean, value);
}

std::string type_of(const Graph& graph, size_t output) {
  return to_string(graph.type(graph.outputs[output]));
}

constexpr std::string_view branches = R"(graph "g" (%c: bool[], %x: f32[n, 2], %y: f32[m, 2]) {
  %r, %s = if {} (%c, %x, %y)
    graph "then" (%a: f32[n, 2], %b: f32[m, 2]) {
      %t = concat {axis=0} (%a, %b)
      return "r" = %t, "s" = %a
    }
    graph "else" (%a: f32[n, 2], %b: f32[m, 2]) {
      %t = pointwise {function=neg} (%b)
      return "r" = %t, "s" = %a
    }
  return "r" = %r, "s" = %s
})";

TEST(If, RunsOneBranch) {
  const Graph graph = parse(branches);
  EXPECT_EQ(type_of(graph, 0), "f32[@r.0, 2]");
  EXPECT_EQ(type_of(graph, 1), "f32[n, 2]");
  const Tensor x = f32({1, 2}, {1, 2}), y = f32({2, 2}, {3, 4, 5, 6});
  EXPECT_EQ(run(graph, {boolean(true), x, y})[0], f32({3, 2}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(run(graph, {boolean(false), x, y})[0], f32({2, 2}, {-3, -4, -5, -6}));
}

TEST(If, ResultsDoNotShareTheInputsMemory) {
  const Tensor memory = f32({1, 2}, {1, 2}), y = f32({2, 2}, {3, 4, 5, 6});
  const Tensor x(DType::f32, {1, 2}, memory.span(), nullptr);  // a view, as the arena's are
  const Tensor s = run(parse(branches), {boolean(true), x, y})[1];
  EXPECT_EQ(s, x);
  EXPECT_NE(s.data(), x.data());
}

TEST(If, RanksMustAgree) {
  const std::string message = error_of([] {
    parse(R"(graph "g" (%c: bool[], %x: f32[1, 2]) {
      %r = if {} (%c, %x)
        graph "then" (%a: f32[1, 2]) { return "r" = %a }
        graph "else" (%a: f32[1, 2]) {
          %t = reshape {shape=shape(2)} (%a)
          return "r" = %t
        }
      return "r" = %r
    })");
  });
  EXPECT_NE(message.find("differ in rank"), std::string::npos) << message;
}

TEST(If, BodyMustTakeTheInputs) {
  const std::string message = error_of([] {
    parse(R"(graph "g" (%c: bool[], %x: f32[1, 2]) {
      %r = if {} (%c, %x)
        graph "then" (%a: f32[1, 3]) { return "r" = %a }
        graph "else" (%a: f32[1, 2]) { return "r" = %a }
      return "r" = %r
    })");
  });
  EXPECT_NE(message.find("the body takes f32[1, 3]"), std::string::npos) << message;
}

// Doubles a vector's values and its length each time, as long as the sum stays below a limit; collects the sums.
constexpr std::string_view doubling = R"(graph "g" (%trips: i64[], %go: bool[], %x: f32[n], %limit: f32[]) {
  %v, %sums = loop {carried=1} (%trips, %go, %x, %limit)
    graph "body" (%i: i64[], %on: bool[], %a: f32[@a.0], %l: f32[]) {
      %b = concat {axis=0} (%a, %a)
      %s = reduce {kind=sum, axes=[0], keep_dims=false} (%b)
      %below = pointwise {function=less} (%s, %l)
      return "on" = %below, "v" = %b, "sums" = %s
    }
  return "v" = %v, "sums" = %sums
})";

TEST(Loop, CarriesGrowingValuesUntilTheConditionFails) {
  const Graph graph = parse(doubling);
  EXPECT_EQ(type_of(graph, 0), "f32[@v.0]");
  EXPECT_EQ(type_of(graph, 1), "f32[@sums.0]");
  const Tensor x = f32({2}, {1, 2}), limit = f32({}, {20});
  const auto out = run(graph, {Tensor::scalar(DType::i64, 10), boolean(true), x, limit});
  EXPECT_EQ(out[1], f32({3}, {6, 12, 24}));
  EXPECT_EQ(out[0].dims(), Dims{16});
  EXPECT_EQ(run(graph, {Tensor::scalar(DType::i64, 2), boolean(true), x, limit})[1], f32({2}, {6, 12}));
  for (const auto& none : {run(graph, {Tensor::scalar(DType::i64, 0), boolean(true), x, limit}),
                           run(graph, {Tensor::scalar(DType::i64, 5), boolean(false), x, limit})}) {
    EXPECT_EQ(none[0], x);
    EXPECT_EQ(none[1], f32({0}, {}));
  }
}

TEST(Loop, WithoutConditionAndWithoutCount) {
  constexpr std::string_view text = R"(graph "g" (%x: i64[], %n: i64[]) {
    %v, %all = loop {carried=1} (-, -, %x, %n)
      graph "body" (%i: i64[], %on: bool[], %a: i64[], %l: i64[]) {
        %b = pointwise {function=add} (%a, %i)
        %below = pointwise {function=less} (%i, %l)
        return "on" = %below, "v" = %b, "all" = %b
      }
    return "v" = %v, "all" = %all
  })";
  const auto out = run(parse(text), {Tensor::scalar(DType::i64, 100), Tensor::scalar(DType::i64, 3)});
  EXPECT_EQ(out[0], i64({}, {106}));
  EXPECT_EQ(out[1], i64({4}, {100, 101, 103, 106}));
}

// Found by fuzzing.
TEST(Loop, ResultsThatNobodyTakesAreNotCollected) {
  constexpr std::string_view text = R"(graph "g" (%n: i64[], %x: i64[]) {
    %v = loop {carried=1} (%n, -, %x)
      graph "body" (%i: i64[], %on: bool[], %a: i64[]) {
        %b = pointwise {function=add} (%a, %i)
        %o = optional {} (%b)
        return "on" = %on, "v" = %b, "left out" = %o
      }
    return "v" = %v
  })";
  EXPECT_EQ(run(parse(text), {Tensor::scalar(DType::i64, 4), Tensor::scalar(DType::i64, 1)})[0], i64({}, {7}));
}

TEST(Loop, CollectedSizesMustAgree) {
  std::string text(doubling);
  text.replace(text.find("\"sums\" = %s\n"), 11, "\"sums\" = %b");
  const Graph graph = parse(text);
  const std::string message = error_of([&] {
    run(graph, {Tensor::scalar(DType::i64, 10), boolean(true), f32({2}, {1, 2}), f32({}, {20})});
  });
  EXPECT_NE(message.find("an iteration gave [8] to collect, the first one [4]"), std::string::npos) << message;
}

TEST(Check, GivesTheValueOrFails) {
  constexpr std::string_view text = R"(graph "g" (%c: bool[1], %x: f32[n]) {
    %y = check {wanted=false, message="not \"this\" one"} (%c, %x)
    return "y" = %y
  })";
  const Graph graph = parse(text);
  EXPECT_TRUE(equal(graph, parse(print(graph))));
  EXPECT_EQ(type_of(graph, 0), "f32[n]");
  const Tensor x = f32({2}, {1, 2});
  EXPECT_EQ(run(graph, {boolean(false).reshaped({1}), x})[0], x);
  const std::string message = error_of([&] { run(graph, {boolean(true).reshaped({1}), x}); });
  EXPECT_NE(message.find("not \"this\" one"), std::string::npos) << message;
}

TEST(ControlFlow, TextAndEquality) {
  const Graph graph = parse(branches);
  EXPECT_TRUE(equal(graph, parse(print(graph))));
}

}  // namespace
}  // namespace camshaft::control_flow_test
