#include "optimize/recognize/recognize_activations.h"

#include <cmath>
#include <limits>

#include "optimize/pass_test.h"
#include "reference/evaluate.h"

namespace camshaft::recognize_activations_test {
namespace {

TEST(RecognizeActivations, Sigmoid) {
  const std::string head = R"(const %one: f32[] = 1
      %n = pointwise {function=neg} (%x)
      %e = pointwise {function=exp} (%n)
      %s = pointwise {function=add} (%e, %one)
      )";
  const std::string after = "%y = pointwise {function=sigmoid} (%x)\nreturn \"y\" = %y";
  expect_pass(recognize_activations, head + "%y = pointwise {function=reciprocal} (%s)\nreturn \"y\" = %y", after);
  expect_pass(recognize_activations, head + "%y = pointwise {function=div} (%one, %s)\nreturn \"y\" = %y", after);
  // SiLU as a quotient, and with a factor (the quick GELU of CLIP).
  expect_pass(recognize_activations, head + "%y = pointwise {function=div} (%x, %s)\nreturn \"y\" = %y",
              R"(%s = pointwise {function=sigmoid} (%x)
      %y = pointwise {function=mul} (%x, %s)
      return "y" = %y)");
  expect_pass(recognize_activations, R"(const %one: f32[] = 1
      const %c: f32[] = -1.702
      %n = pointwise {function=mul} (%c, %x)
      %e = pointwise {function=exp} (%n)
      %s = pointwise {function=add} (%one, %e)
      %y = pointwise {function=div} (%x, %s)
      return "y" = %y)",
              R"(const %c: f32[] = 1.702
      %m = pointwise {function=mul} (%x, %c)
      %s = pointwise {function=sigmoid} (%m)
      %y = pointwise {function=mul} (%x, %s)
      return "y" = %y)");
}

TEST(RecognizeActivations, OthersStay) {
  const std::string body = R"(const %one: f32[] = 1
      %n = pointwise {function=neg} (%x)
      %e = pointwise {function=exp} (%n)
      %s = pointwise {function=add} (%e, %one)
      %y = pointwise {function=div} (%x, %s)
      return "y" = %y)";
  for (const auto& [from, to] : {std::pair("function=neg", "function=abs"), std::pair("= 1\n", "= 2\n"),
                                 std::pair("function=add", "function=sub"), std::pair("(%x, %s)", "(%s, %x)")}) {
    std::string text = body;
    text.replace(text.find(from), std::string(from).size(), to);
    expect_unchanged(recognize_activations, text);
  }
  // f16 has no e^20.
  expect_unchanged(recognize_activations, R"(%e = pointwise {function=exp} (%x)
      %s = pointwise {function=log1p} (%e)
      %y = pointwise {function=tanh} (%s)
      return "y" = %y)",
                   "%x: f16[2, 3]");
  for (const std::string softplus : {"%s = pointwise {function=log} (%e)\n", "%s = pointwise {function=exp} (%e)\n"})
    expect_unchanged(recognize_activations, "%e = pointwise {function=exp} (%x)\n" + softplus +
                                                "%y = pointwise {function=tanh} (%s)\nreturn \"y\" = %y");
}

// Three ways to write a softplus; numbers of all sizes.
TEST(RecognizeActivations, Mish) {
  const std::string ways[] = {R"(const %one: f32[] = 1
      %e = pointwise {function=exp} (%x)
      %a = pointwise {function=add} (%one, %e)
      %s = pointwise {function=log} (%a)
      )",
                              R"(%e = pointwise {function=exp} (%x)
      %s = pointwise {function=log1p} (%e)
      )",
                              R"(const %zero: f32[] = 0
      %p = pointwise {function=max} (%x, %zero)
      %a = pointwise {function=abs} (%x)
      %n = pointwise {function=neg} (%a)
      %e = pointwise {function=exp} (%n)
      %l = pointwise {function=log1p} (%e)
      %s = pointwise {function=add} (%p, %l)
      )"};
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> numbers{0, -0.0f, infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), 1e-30f, 1e30f};
  for (float x = -110; x < 110; x += 0.37f) numbers.push_back(x);
  Tensor x(DType::f32, {static_cast<int64_t>(numbers.size())});
  std::copy(numbers.begin(), numbers.end(), x.as_mutable<float>());
  for (const std::string& way : ways) {
    Graph graph = parse_graph("graph \"g\" (%x: f32[n]) {\n" + way + R"(%t = pointwise {function=tanh} (%s)
      %y = pointwise {function=mul} (%x, %t)
      return "y" = %y
      })",
                              operators());
    recognize_activations(graph, test_context());
    verify(graph, "the pass");
    EXPECT_EQ(graph.nodes.size(), 7U) << print(graph);
    const Tensor y = evaluate(graph, {x}, test_pool())[0];
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double v = numbers[i], wanted = v * std::tanh(v > 50 ? v : std::log1p(std::exp(v)));
      const double got = y.as<float>()[i];
      EXPECT_TRUE(std::isnan(wanted)   ? std::isnan(got)
                  : std::isinf(wanted) ? got == wanted
                                       : std::abs(got - wanted) <= 3e-7 * std::abs(wanted) + 1e-37)
          << v << ": " << got << " for " << wanted;
    }
  }
}

}  // namespace
}  // namespace camshaft::recognize_activations_test
