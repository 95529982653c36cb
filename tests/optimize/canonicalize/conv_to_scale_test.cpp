#include "optimize/canonicalize/conv_to_scale.h"

#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"

namespace camshaft::conv_to_scale_test {
namespace {

std::string conv(const std::string& more, int spatial = 2) {
  std::string ones, zeros;
  for (int i = 0; i < spatial; ++i) ones += i ? ", 1" : "1", zeros += i ? ", 0, 0" : "0, 0";
  return "conv {strides=[" + ones + "], pads=shape(" + zeros + "), dilations=[" + ones + "], " + more + "}";
}

TEST(ConvToScale, WithAndWithoutBias) {
  expect_pass(conv_to_scale,
              "%y = " + conv("groups=3") + "(%x, %w, %b)\n%z = " + conv("groups=3") + "(%y, %w)\nreturn %z",
              R"(%ws = reshape {shape=shape(3, 1, 1)} (%w)
                 %p = pointwise {function=mul} (%x, %ws)
                 %bs = reshape {shape=shape(3, 1, 1)} (%b)
                 %y = pointwise {function=add} (%p, %bs)
                 %wt = reshape {shape=shape(3, 1, 1)} (%w)
                 %z = pointwise {function=mul} (%y, %wt)
                 return %z)",
              "%x: f32[n, 3, h, 5], %w: f32[3, 1, 1, 1], %b: f32[3]");
}

TEST(ConvToScale, ChannelsLastAndOtherAxes) {
  expect_pass(conv_to_scale, "%y = " + conv("groups=3, channels_last=true") + "(%x, %w)\nreturn %y",
              "%s = reshape {shape=shape(3)} (%w)\n%y = pointwise {function=mul} (%x, %s)\nreturn %y",
              "%x: f32[n, h, 5, 3], %w: f32[3, 1, 1, 1]");
  for (const int spatial : {1, 3}) {
    std::string ones, sizes;
    for (int i = 0; i < spatial; ++i) ones += ", 1", sizes += ", 7";
    expect_pass(conv_to_scale, "%y = " + conv("groups=3", spatial) + "(%x, %w)\nreturn %y",
                "%s = reshape {shape=shape(3" + ones + ")} (%w)\n%y = pointwise {function=mul} (%x, %s)\nreturn %y",
                "%x: f16[2, 3" + sizes + "], %w: f16[3, 1" + ones + "]");
  }
}

TEST(ConvToScale, NotOtherConvolutions) {
  const auto unchanged = [](const std::string& op, const std::string& weights) {
    expect_unchanged(conv_to_scale, "%y = " + op + "(%x, %w)\nreturn %y",
                     "%x: f32[n, 4, 6, 6], %w: f32[" + weights + "]");
  };
  unchanged(conv("groups=4"), "8, 1, 1, 1");
  unchanged(conv("groups=2"), "4, 2, 1, 1");
  unchanged(conv("groups=4"), "4, 1, 1, 3");
  unchanged("conv {strides=[2, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], groups=4}", "4, 1, 1, 1");
  unchanged("conv {strides=[1, 1], pads=shape(0, 1, 0, 0), dilations=[1, 1], groups=4}", "4, 1, 1, 1");
}

TEST(ConvToScale, SameResults) {
  Random random = test_random();
  for (const bool channels_last : {false, true}) {
    Graph graph = graph_of(
        channels_last ? "%x: f32[2, 6, 5, 3], %w: f32[3, 1, 1, 1], %b: f32[3]"
                      : "%x: f32[2, 3, 6, 5], %w: f32[3, 1, 1, 1], %b: f32[3]",
        "%y = " + conv(channels_last ? "groups=3, channels_last=true" : "groups=3") + "(%x, %w, %b)\nreturn %y");
    std::vector<Tensor> inputs;
    for (const Dims& dims : {channels_last ? Dims{2, 6, 5, 3} : Dims{2, 3, 6, 5}, Dims{3, 1, 1, 1}, Dims{3}})
      inputs.push_back(random_tensor(random, DType::f32, dims));
    const std::vector<double> expected = evaluate(graph, inputs, test_pool())[0].to_doubles();
    conv_to_scale(graph, test_context());
    verify(graph, "the pass");
    ASSERT_EQ(graph.nodes.back().op.name(), "pointwise");
    const std::vector<double> actual = evaluate(graph, inputs, test_pool())[0].to_doubles();
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-6) << i;
  }
}

}  // namespace
}  // namespace camshaft::conv_to_scale_test
