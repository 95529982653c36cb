#include "optimize/layout/to_channels_last.h"

#include <algorithm>

#include "optimize/canonicalize/eliminate_common_subexpressions.h"
#include "optimize/canonicalize/fold_constants.h"
#include "optimize/canonicalize/simplify_moves.h"
#include "optimize/pass_test.h"

namespace camshaft::to_channels_last_test {
namespace {

void to_layout(Graph& graph, const PassContext& context) {
  to_channels_last(graph, context);
  verify(graph, "to_channels_last");
  simplify_moves(graph, context);
  fold_constants(graph, context);
  eliminate_common_subexpressions(graph, context);
}

int transposes(const std::string& body, const std::string& inputs) {
  const Graph graph = run_pass(to_layout, graph_text(inputs, body));
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [](const Node& node) { return node.op.name() == "transpose"; }));
}

// %y = conv3(%x) over 4 channels; the weights come from weights().
std::string conv(const std::string& y, const std::string& x, const std::string& weights = "w") {
  return "%" + y + " = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1]} (%" + x + ", %" + weights +
         ")\n";
}
const std::string weights = "const %w: f32[4, 4, 3, 3] = 0.5\n";

TEST(ToChannelsLast, OneTransposeAtEachEnd) {
  expect_pass(to_layout,
              weights + R"(const %b: f32[4, 1, 1] = [1, 2, 3, 4]
                           const %zero: f32[] = 0)" +
                  "\n" + conv("p", "x") + R"(%q = pointwise {function=add} (%b, %p)
                 %r = pointwise {function=max} (%q, %zero)
                 %s = pool {kind=max, kernel=[2, 2], strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%r)
                 return "s" = %s)",
              weights + R"(const %b: f32[1, 1, 1, 4] = [1, 2, 3, 4]
                 const %zero: f32[] = 0
                 %x.last = transpose {permutation=[0, 2, 3, 1]} (%x)
                 %p = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], channels_last=true} (%x.last, %w)
                 %q = pointwise {function=add} (%b, %p)
                 %r = pointwise {function=max} (%q, %zero)
                 %s = pool {kind=max, kernel=[2, 2], strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} (%r)
                 %t = transpose {permutation=[0, 3, 1, 2]} (%s)
                 return "s" = %t)",
              "%x: f32[n, 4, h, h]");
}

TEST(ToChannelsLast, IntegerConvolutions) {
  const std::string quantized = R"(const %w: i8[4, 4, 3, 3] = 1
                                   const %s: f32[4, 1, 1] = [1, 2, 3, 4]
                                   %p = integer_conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1]} (%x, %w)
                                   %f = cast {to=f32} (%p)
                                   %m = pointwise {function=mul} (%f, %s)
                                   %c = cast {to=u8} (%m)
                                   %y = integer_conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1]} (%c, %w)
                                   return %y)";
  EXPECT_EQ(transposes(quantized, "%x: u8[1, 4, 8, 8]"), 2);
}

TEST(ToChannelsLast, ResidualsAndGates) {
  EXPECT_EQ(transposes(weights + conv("p", "x") +
                           R"(%pooled = reduce {kind=mean, axes=[2, 3]} (%p)
                              %gate = pointwise {function=sigmoid} (%pooled)
                              %q = pointwise {function=mul} (%p, %gate)
                              %r = pointwise {function=add} (%q, %x)
                              %flat = reduce {kind=mean, axes=[2, 3], keep_dims=false} (%r)
                              %same = reduce {kind=mean, axes=[2, 3]} (%r)
                              %f = reshape {shape=shape(n, 4)} (%same)
                              return %flat, %f)",
                       "%x: f32[n, 4, 8, 8]"),
            1);
}

TEST(ToChannelsLast, ConcatSliceResizePad) {
  EXPECT_EQ(transposes(weights + conv("p", "x") +
                           R"(%up = resize {axes=[2, 3], sizes=shape(16, 16), scales=[2.0, 2.0]} (%p)
                              %pad = pad {pads=shape(0, 0, 4, 4, 0, 0, 4, 4)} (%p)
                              %c = concat {axis=1} (%up, %pad)
                              %s = slice {axes=[1], starts=shape(2), counts=shape(4), steps=[1]} (%c)
                              %a = softmax {axis=1} (%s)
                              %m = arg_reduce {axis=1, keep_dims=false} (%a)
                              )" +
                           conv("y", "s") + "return %y, %m",
                       "%x: f32[1, 4, 8, 8]"),
            2);
}

TEST(ToChannelsLast, PatchEmbedding) {
  EXPECT_EQ(transposes(weights + conv("p", "x") +
                           R"(%r = reshape {shape=shape(n, 4, 64)} (%p)
                              %t = transpose {permutation=[0, 2, 1]} (%r)
                              %heads = reshape {shape=shape(n, 64, 2, 2)} (%t)
                              %q = transpose {permutation=[0, 2, 1, 3]} (%heads)
                              return %t, %q)",
                       "%x: f32[n, 4, 8, 8]"),
            2);  // the image's, and the heads' own
}

TEST(ToChannelsLast, DetectionHead) {
  EXPECT_EQ(transposes(weights + conv("p", "x") +
                           R"(%r = reshape {shape=shape(n, 2, 2, 8, 8)} (%p)
                              %t = transpose {permutation=[0, 1, 3, 4, 2]} (%r)
                              %s = pointwise {function=sigmoid} (%t)
                              return %s)",
                       "%x: f32[n, 4, 8, 8]"),
            2);
}

TEST(ToChannelsLast, ChannelShuffleAndPixelShuffle) {
  EXPECT_EQ(transposes(weights + conv("p", "x") +
                           R"(%r = reshape {shape=shape(n, 2, 2, 8, 8)} (%p)
                              %t = transpose {permutation=[0, 2, 1, 3, 4]} (%r)
                              %s = reshape {shape=shape(n, 4, 8, 8)} (%t)
                              )" +
                           conv("y", "s") + "return %y",
                       "%x: f32[n, 4, 8, 8]"),
            3);
  EXPECT_EQ(transposes(weights + "const %u: f32[2, 1, 1, 1] = 1\n" + conv("p", "x") +
                           R"(%r = reshape {shape=shape(n, 1, 2, 2, 8, 8)} (%p)
                              %t = transpose {permutation=[0, 1, 4, 2, 5, 3]} (%r)
                              %s = reshape {shape=shape(n, 1, 16, 16)} (%t)
                              )" +
                           conv("y", "s", "u") + "return %y",
                       "%x: f32[n, 4, 8, 8]"),
            3);
}

TEST(ToChannelsLast, NormalisationBetweenTheModelsOwnTransposes) {
  EXPECT_EQ(transposes(weights + conv("p", "x") +
                           R"(%t = transpose {permutation=[0, 2, 3, 1]} (%p)
                              %n = layer_norm {axis=3} (%t)
                              %b = transpose {permutation=[0, 3, 1, 2]} (%n)
                              %r = pointwise {function=add} (%b, %p)
                              )" +
                           conv("y", "r") + "return %y",
                       "%x: f32[1, 4, 8, 8]"),
            2);
}

// A depthwise convolution between linear layers, as transformers for images have.
TEST(ToChannelsLast, TokensThatBecomeAnImage) {
  EXPECT_EQ(transposes(weights + R"(%m = matmul {} (%x, %v)
                              %t = transpose {permutation=[0, 2, 1]} (%m)
                              %r = reshape {shape=shape(n, 4, 8, 8)} (%t)
                              %up = resize {axes=[2, 3], sizes=shape(16, 16), scales=[2.0, 2.0]} (%r)
                              %c = concat {axis=1} (%up, %up)
                              %d = slice {axes=[1], starts=shape(2), counts=shape(4), steps=[1]} (%c)
                              )" +
                           conv("p", "d") +
                           R"(%f = reshape {shape=shape(n, 4, 256)} (%p)
                              %b = transpose {permutation=[0, 2, 1]} (%f)
                              %y = matmul {} (%b, %v)
                              return %y)",
                       "%x: f32[n, 64, 4], %v: f32[4, 4]"),
            0);
}

// A convolution over time and image, its norm and pooling: one transpose in, and one out; what is reduced over all
// three axes lies as in the model.
TEST(ToChannelsLast, ThreeAxes) {
  const std::string constants = R"(const %w: f32[4, 4, 3, 3, 3] = 0.5
                                   const %s: f32[4] = [1, 2, 3, 4]
                                   )";
  expect_pass(to_layout,
              constants + R"(%p = conv {strides=[1, 1, 1], pads=shape(1, 1, 1, 1, 1, 1), dilations=[1, 1, 1]} (%x, %w)
                 %n = group_norm {groups=2, epsilon=0.001} (%p, %s, %s)
                 %r = pointwise {function=add} (%n, %p)
                 %m = pool {kind=max, kernel=[2, 2, 2], strides=[2, 2, 2], pads=shape(0, 0, 0, 0, 0, 0), dilations=[1, 1, 1]} (%r)
                 %a = reduce {kind=mean, axes=[2, 3, 4], keep_dims=false} (%m)
                 return "m" = %m, "a" = %a)",
              constants + R"(%l = transpose {permutation=[0, 2, 3, 4, 1]} (%x)
                 %p = conv {strides=[1, 1, 1], pads=shape(1, 1, 1, 1, 1, 1), dilations=[1, 1, 1], channels_last=true} (%l, %w)
                 %n = group_norm {groups=2, epsilon=0.001, channels_last=true} (%p, %s, %s)
                 %r = pointwise {function=add} (%n, %p)
                 %m = pool {kind=max, kernel=[2, 2, 2], strides=[2, 2, 2], pads=shape(0, 0, 0, 0, 0, 0), dilations=[1, 1, 1], channels_last=true} (%r)
                 %a = reduce {kind=mean, axes=[1, 2, 3], keep_dims=false} (%m)
                 %t = transpose {permutation=[0, 4, 1, 2, 3]} (%m)
                 return "m" = %t, "a" = %a)",
              "%x: f32[n, 4, 8, 8, 8]");
}

TEST(ToChannelsLast, PoolingAwayFromConvolutionsStays) {
  const std::string pool = "pool {kind=max, kernel=[2, 2], strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1]";
  expect_unchanged(to_layout, "%p = " + pool + "} (%x)\n" + "return %p", "%x: f32[n, 4, 8, 8]");
  // Between the model's own transposes it has the layout already.
  expect_pass(to_layout,
              "%t = transpose {permutation=[0, 3, 1, 2]} (%x)\n%p = " + pool + "} (%t)\n" +
                  "%y = transpose {permutation=[0, 2, 3, 1]} (%p)\nreturn \"y\" = %y",
              "%p = " + pool + ", channels_last=true} (%x)\nreturn \"y\" = %p", "%x: f32[n, 8, 8, 4]");
}

TEST(ToChannelsLast, WhatIsNotAnImageStays) {
  expect_unchanged(to_layout, R"(%t = transpose {permutation=[0, 2, 1]} (%x)
                                 %m = matmul {} (%x, %t)
                                 %s = softmax {axis=2} (%m)
                                 return %s)",
                   "%x: f32[2, 5, 6]");
  expect_unchanged(to_layout, R"(const %w: f32[4, 4, 1, 1, 1, 1] = 1
                                 %y = conv {strides=[1, 1, 1, 1], pads=shape(0, 0, 0, 0, 0, 0, 0, 0), dilations=[1, 1, 1, 1]} (%x, %w)
                                 return %y)",
                   "%x: f32[1, 4, 8, 8, 8, 8]");
}

}  // namespace
}  // namespace camshaft::to_channels_last_test
