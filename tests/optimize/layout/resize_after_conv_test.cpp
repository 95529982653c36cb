#include "optimize/layout/resize_after_conv.h"

#include <algorithm>
#include <cmath>

#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"

namespace camshaft::resize_after_conv_test {
namespace {

const std::string pixel = "{strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} ";
const std::string twice = "{mode=linear, axes=[1, 2], sizes=shape(8, 8), scales=[2.0, 2.0]} ";

TEST(ResizeAfterConv, PartOfAConcatenation) {
  expect_pass(resize_after_conv,
              "const %w: f32[8, 48, 1, 1] = 0.5\nconst %bias: f32[8] = [1, 2, 3, 4, 5, 6, 7, 8]\n%up = resize " +
                  twice + "(%b)\n%c = concat {axis=3} (%up, %a)\n%y = conv " + pixel + "(%c, %w, %bias)\nreturn %y",
              "const %wa: f32[8, 16, 1, 1] = 0.5\nconst %wb: f32[8, 32, 1, 1] = 0.5\n"
              "const %bias: f32[8] = [1, 2, 3, 4, 5, 6, 7, 8]\n%ya = conv " +
                  pixel + "(%a, %wa, %bias)\n%yb = conv " + pixel + "(%b, %wb)\n%up = resize " + twice +
                  "(%yb)\n%y = pointwise {function=add} (%ya, %up)\nreturn %y",
              "%a: f32[n, 8, 8, 16], %b: f32[n, 4, 4, 32]");
}

TEST(ResizeAfterConv, Alone) {
  expect_pass(resize_after_conv,
              "const %w: f32[8, 48, 1, 1] = 0.5\nconst %bias: f32[8] = [1, 2, 3, 4, 5, 6, 7, 8]\n%up = resize " +
                  twice + "(%x)\n%y = conv " + pixel + "(%up, %w, %bias)\nreturn %y",
              "const %w: f32[8, 48, 1, 1] = 0.5\nconst %bias: f32[8] = [1, 2, 3, 4, 5, 6, 7, 8]\n%y = conv " + pixel +
                  "(%x, %w, %bias)\n%up = resize " + twice + "(%y)\nreturn \"y\" = %up",
              "%x: f32[n, 4, 4, 48]");
}

TEST(ResizeAfterConv, NotWhereItSavesNothing) {
  const auto unchanged = [](const std::string& body) {
    expect_unchanged(resize_after_conv, "const %w: f32[8, 48, 1, 1] = 0.5\n" + body,
                     "%x: f32[n, 4, 4, 48], %large: f32[n, 16, 16, 48], %thin: f32[n, 4, 4, 16], %a: f32[n, 8, 8, 32]");
  };
  unchanged("%up = resize " + twice + "(%large)\n%y = conv " + pixel + "(%up, %w)\nreturn %y");
  unchanged("%up = resize " + twice + "(%x)\n%y = conv " + pixel + "(%up, %w)\nreturn %y, %up");
  unchanged("const %none: f32[0, 48, 1, 1] = []\n%up = resize " + twice + "(%x)\n%y = conv " + pixel +
            "(%up, %none)\nreturn %y");
  unchanged("%up = resize " + twice + "(%thin)\n%c = concat {axis=3} (%up, %a)\n%y = conv " + pixel +
            "(%c, %w)\nreturn %y");
}

TEST(ResizeAfterConv, SameResults) {
  Random random = test_random();
  for (const std::string mode : {"nearest", "linear", "cubic"}) {
    Graph graph = parse_graph(
        "graph (%a: f32[2, 5, 8, 6], %b: f32[2, 32, 4, 3], %c: f32[2, 40, 2, 2], %d: f32[2, 3, 8, 6]) {\n"
        "const %w: f32[9, 80, 1, 1] = 1\nconst %bias: f32[9] = 1\n"
        "%ub = resize {mode=" +
            mode +
            ", axes=[2, 3], sizes=shape(8, 6), scales=[2.0, 2.0]} (%b)\n"
            "%uc = resize {mode=" +
            mode +
            ", axes=[2, 3], sizes=shape(8, 6), scales=[4.0, 3.0]} (%c)\n"
            "%j = concat {axis=1} (%ub, %a, %uc, %d)\n"
            "%y = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%j, %w, %bias)\nreturn %y\n}",
        operators());
    for (Value& v : graph.values)
      if (v.constant)
        v.constant = std::make_shared<const Tensor>(random_tensor(random, DType::f32, v.constant->dims()));
    std::vector<Tensor> inputs;
    for (const Dims& dims : {Dims{2, 5, 8, 6}, Dims{2, 32, 4, 3}, Dims{2, 40, 2, 2}, Dims{2, 3, 8, 6}})
      inputs.push_back(random_tensor(random, DType::f32, dims));
    const std::vector<double> expected = evaluate(graph, inputs, test_pool())[0].to_doubles();
    resize_after_conv(graph, test_context());
    verify(graph, "the pass");
    EXPECT_EQ(
        std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) { return n.op.name() == "conv"; }), 3);
    const std::vector<double> actual = evaluate(graph, inputs, test_pool())[0].to_doubles();
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-4) << mode << " " << i;
  }
}

}  // namespace
}  // namespace camshaft::resize_after_conv_test
