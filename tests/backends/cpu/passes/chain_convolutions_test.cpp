#include "backends/cpu/passes/chain_convolutions.h"

#include "ir/ops/region.h"
#include "optimize/fuse/fuse.h"
#include "optimize/outline.h"
#include "optimize/pass_test.h"

namespace camshaft::chain_convolutions_test {
namespace {

void fuse_and_chain(Graph& graph, const PassContext& context) {
  fuse(graph, context);
  chain_convolutions(graph, context);
}

constexpr const char* image = "%x: f32[n, h, 10, 4]";
const std::string weights = R"(
  const %we: f32[8, 4, 1, 1] = 0.5
  const %be: f32[8] = 0.25
  const %wd: f32[8, 1, 3, 3] = 0.5
  const %wp: f32[4, 8, 1, 1] = 0.5
  const %zero: f32[] = 0
  )";
const std::string pixel = "conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} ";
const std::string depthwise =
    "conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=8, channels_last=true} ";

std::string chained(const std::string& body, PassNotes* notes = nullptr) {
  Graph graph = graph_of(image, weights + body);
  PassContext context = test_context();
  context.notes = notes;
  fuse_and_chain(graph, context);
  verify(graph, "the pass under test");
  return outline(graph);
}

TEST(ChainConvolutions, InvertedBottleneck) {
  expect_pass(chain_convolutions, weights + "%e = " + pixel + R"((%x, %we, %be) from "Expand"
                 %d = )" + depthwise + R"((%e, %wd) from "Depthwise"
                 %y = )" + pixel + R"((%d, %wp) from "Project"
                 return "y" = %y)",
              R"(const %we: f32[8, 4, 1, 1] = 0.5
                 const %be: f32[8] = 0.25
                 const %wd: f32[8, 1, 3, 3] = 0.5
                 const %wp: f32[4, 8, 1, 1] = 0.5
                 %y = region {kind=chain} (%x, %we, %be, %wd, %wp)
                   graph (%x: f32[n, h, 10, 4], %we: f32[8, 4, 1, 1], %be: f32[8], %wd: f32[8, 1, 3, 3],
                          %wp: f32[4, 8, 1, 1]) {
                     %e = )" +
                  pixel + R"((%x, %we, %be)
                     %d = )" +
                  depthwise + R"((%e, %wd)
                     %y = )" +
                  pixel + R"((%d, %wp)
                     return %y
                   }
                 return "y" = %y)",
              image);
}

TEST(ChainConvolutions, PartsKeepTheirEpilogues) {
  EXPECT_EQ(chained("%e = " + pixel + R"((%x, %we, %be)
                     %f = pointwise {function=max} (%e, %zero)
                     %d = )" +
                    depthwise + R"((%f, %wd)
                     %s = pointwise {function=sigmoid} (%d)
                     %t = pointwise {function=mul} (%d, %s)
                     %p = )" +
                    pixel + R"((%t, %wp)
                     %y = pointwise {function=add} (%x, %p)
                     return %y)"),
            "chain(contract(conv, pointwise), contract(conv, pointwise, pointwise), contract(conv, pointwise))");
}

TEST(ChainConvolutions, PairsWhereSomethingStandsBetween) {
  // Squeeze and excite between the depthwise convolution and the projection.
  EXPECT_EQ(chained("%e = " + pixel + R"((%x, %we)
                     %d = )" +
                    depthwise + R"((%e, %wd)
                     %m = reduce {kind=mean, axes=[1, 2], keep_dims=true} (%d)
                     %s = pointwise {function=sigmoid} (%m)
                     %t = pointwise {function=mul} (%d, %s)
                     %y = )" +
                    pixel + R"((%t, %wp)
                     return %y)"),
            "chain(conv, conv), reduce(reduce, pointwise), chain(pointwise, conv)");
  // No expansion.
  EXPECT_EQ(chained(R"(const %wd4: f32[4, 1, 3, 3] = 0.5
                     const %wp4: f32[6, 4, 1, 1] = 0.5
                     %d = conv {strides=[2, 2], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=4, )"
                    "channels_last=true} (%x, %wd4)\n%y = " +
                    pixel + R"((%d, %wp4)
                     return %y)"),
            "chain(conv, conv)");
}

TEST(ChainConvolutions, A1x1ConvolutionBetweenTwoDepthwiseOnesIsInOneChain) {
  PassNotes notes;
  EXPECT_EQ(chained("const %wq: f32[8, 8, 1, 1] = 0.5\n%e = " + pixel + R"((%x, %we)
                     %d = )" +
                        depthwise + R"((%e, %wd)
                     %p = )" +
                        pixel + R"((%d, %wq) from "Middle"
                     %f = )" +
                        depthwise + R"((%p, %wd) from "Second"
                     %y = )" +
                        pixel + R"((%f, %wp)
                     return %y)",
                    &notes),
            "chain(conv, conv, conv), chain(conv, conv)");
  EXPECT_EQ(notes["p"], (std::vector<std::string>{"not chained with 'Second': 'Middle' is in another chain"}));
}

TEST(ChainConvolutions, WhatIsWrittenAnywayIsNotChained) {
  PassNotes notes;
  EXPECT_EQ(chained("%e = " + pixel + R"((%x, %we)
                     %d = )" +
                        depthwise + R"((%e, %wd) from "D"
                     return %e, %d)",
                    &notes),
            "conv, conv");
  ASSERT_EQ(notes["e"].size(), 1u);
  EXPECT_EQ(notes["e"][0], "not chained with 'D': 'e' is an output of the model, so it is written anyway");

  notes.clear();
  EXPECT_EQ(chained("%e = " + pixel + R"((%x, %we)
                     %d = )" +
                        depthwise + R"((%e, %wd) from "D"
                     %m = reduce {kind=mean, axes=[1, 2], keep_dims=true} (%e)
                     return %m, %d)",
                    &notes),
            "conv, conv, reduce");
  EXPECT_EQ(notes["e"], (std::vector<std::string>{"not chained with 'D': 2 operators read 'e'"}));
}

TEST(ChainConvolutions, ThePartBeforeTakesNoImageBesides) {
  PassNotes notes;
  EXPECT_EQ(chained(R"(const %wq: f32[4, 4, 1, 1] = 0.5
                     const %w4: f32[4, 1, 3, 3] = 0.5
                     %z = pointwise {function=exp} (%x)
                     %q = )" +
                        pixel +
                        R"((%z, %wq)
                     %r = pointwise {function=add} (%x, %q)
                     %d = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=4, )"
                        R"(channels_last=true} (%r, %w4) from "D"
                     return %d)",
                    &notes),
            "pointwise, contract(conv, pointwise), conv");
  EXPECT_EQ(notes["r"],
            (std::vector<std::string>{
                "not chained with 'D': 'r' is computed with 'x', which is more than one element a channel"}));
  // What is convolved and added again is read twice.
  EXPECT_EQ(chained(R"(const %wq: f32[4, 4, 1, 1] = 0.5
                     const %w4: f32[4, 1, 3, 3] = 0.5
                     %d = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=4, )"
                    R"(channels_last=true} (%x, %w4)
                     %q = )" +
                    pixel + R"((%d, %wq)
                     %r = pointwise {function=add} (%d, %q)
                     return %r)"),
            "conv, contract(conv, pointwise)");
}

TEST(ChainConvolutions, OnlyConvolutionsOfThisForm) {
  const auto between = [](const std::string& first, const std::string& second) {
    return chained("%e = conv {" + first + R"(, dilations=[1, 1], channels_last=true} (%x, %we)
                     %d = conv {)" +
                   second + R"(, dilations=[1, 1], channels_last=true} (%e, %wd)
                     return %d)");
  };
  const std::string plain = "strides=[1, 1], pads=shape(0, 0, 0, 0)";
  EXPECT_EQ(between(plain, plain + ", groups=8"), "chain(conv, conv)");
  EXPECT_EQ(between("strides=[2, 2], pads=shape(0, 0, 0, 0)", plain + ", groups=8"), "conv, conv");
  EXPECT_EQ(between("strides=[1, 1], pads=shape(1, 1, 1, 1)", plain + ", groups=8"), "conv, conv");
}

TEST(ChainConvolutions, AnImagesTransposeAndTheConvolutionThatAloneReadsIt) {
  const std::string transposed = R"(const %w3: f32[8, 4, 3, 3] = 0.5
      %c = transpose {permutation=[0, 3, 1, 2]} (%x)
      %t = transpose {permutation=[0, 2, 3, 1]} (%c)
      )";
  const std::string stem = "conv {strides=[2, 2], pads=shape(1, 1, 1, 1), dilations=[1, 1], channels_last=true} ";
  EXPECT_EQ(chained(transposed + "%d = " + stem + R"((%t, %w3)
                     %y = pointwise {function=max} (%d, %zero)
                     return %y)"),
            "transpose, chain(transpose, contract(conv, pointwise))");
  EXPECT_EQ(chained(transposed + "%y = " + stem + "(%t, %w3)\nreturn %t, %y"), "transpose, transpose, conv");
  const std::string pool =
      "%p = pool {kind=max, kernel=[3, 3], strides=[2, 2], pads=shape(1, 1, 1, 1), dilations=[1, 1], "
      "channels_last=true} (%y)\n";
  EXPECT_EQ(chained(transposed + "%y = " + stem + "(%t, %w3)\n" + pool + "return %p"),
            "transpose, chain(transpose, conv, pool)");
  EXPECT_EQ(chained(transposed + "%y = " + stem + "(%t, %w3)\n" + pool + "return %p, %y"),
            "transpose, chain(transpose, conv), pool");
  EXPECT_EQ(chained(transposed + "%y = " + pixel + "(%t, %we)\nreturn %y"), "transpose, transpose, conv");
}

TEST(ChainConvolutions, ATransposedConvolutionAndTheTransposesAroundIt) {
  const std::string transposed = R"(const %w2: f32[4, 3, 2, 2] = 0.5
      const %w40: f32[4, 40, 2, 2] = 0.5
      const %w40x12: f32[4, 40, 12, 12] = 0.5
      %c = transpose {permutation=[0, 3, 1, 2]} (%x)
      %t = transpose {permutation=[0, 2, 3, 1]} (%c)
      )";
  const std::string twice =
      "conv_transpose {strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1], output_padding=shape(0, 0), "
      "channels_last=true} ";
  const std::string back = "transpose {permutation=[0, 3, 1, 2]} ";
  EXPECT_EQ(chained(transposed + "%d = " + twice + "(%t, %w2)\n%y = " + back + "(%d)\nreturn %y"),
            "transpose, chain(transpose, conv_transpose, transpose)");
  EXPECT_EQ(chained(transposed + "%d = " + twice + R"((%t, %w2)
                     %r = pointwise {function=max} (%d, %zero)
                     %y = )" +
                    back + "(%r)\nreturn %y"),
            "transpose, chain(transpose, contract(conv_transpose, pointwise), transpose)");
  // Only one of them is read by nobody else.
  EXPECT_EQ(chained(transposed + "%d = " + twice + "(%t, %w2)\n%y = " + back + "(%d)\nreturn %t, %y"),
            "transpose, transpose, chain(conv_transpose, transpose)");
  EXPECT_EQ(chained(transposed + "%d = " + twice + "(%t, %w2)\n%y = " + back + "(%d)\nreturn %d, %y"),
            "transpose, chain(transpose, conv_transpose), transpose");
  // As many channels fill the vectors of a product, and are chained where the convolution stands alone.
  EXPECT_EQ(chained(transposed + "%d = " + twice + "(%t, %w40)\n%y = " + back + "(%d)\nreturn %y"),
            "transpose, chain(transpose, conv_transpose, transpose)");
  EXPECT_EQ(chained(transposed + "%d = " + twice + "(%t, %w40)\n%y = " + back + "(%d)\nreturn %d, %y"),
            "transpose, transpose, conv_transpose, transpose");
  EXPECT_EQ(chained(transposed + "%d = " + twice + "(%t, %w40x12)\n%y = " + back + "(%d)\nreturn %y"),
            "transpose, chain(transpose, conv_transpose, transpose)");
}

TEST(ChainConvolutions, AConvolutionThatStandsAloneBetweenTransposes) {
  const std::string transposed = R"(const %wg: f32[6, 2, 3, 3] = 0.5
      const %w9: f32[6, 2, 9, 9] = 0.5
      %c = transpose {permutation=[0, 3, 1, 2]} (%x)
      %t = transpose {permutation=[0, 2, 3, 1]} (%c)
      )";
  const std::string back = "transpose {permutation=[0, 3, 1, 2]} ";
  const std::string grouped =
      "conv {strides=[2, 1], pads=shape(1, 1, 1, 1), dilations=[1, 2], groups=2, channels_last=true} ";
  EXPECT_EQ(chained(transposed + "%d = " + grouped + R"((%t, %wg)
                     %r = pointwise {function=max} (%d, %zero)
                     %y = )" +
                    back + "(%r)\nreturn %y"),
            "transpose, chain(transpose, contract(conv, pointwise), transpose)");
  EXPECT_EQ(chained(transposed + "%d = " + pixel + "(%t, %we)\n%y = " + back + "(%d)\nreturn %y"),
            "transpose, chain(transpose, conv, transpose)");
  // Of a few image channels, too, whose stem would leave the transpose behind it.
  EXPECT_EQ(chained(transposed + "const %w3: f32[8, 4, 3, 3] = 0.5\n%d = " + pixel + "(%t, %w3)\n%y = " + back +
                    "(%d)\nreturn %y"),
            "transpose, chain(transpose, conv, transpose)");
  // Of 162 products an element, too: whether the transposes are a small part is measured.
  const std::string wide =
      "conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=2, channels_last=true} ";
  EXPECT_EQ(chained(transposed + "%d = " + wide + "(%t, %w9)\n%y = " + back + "(%d)\nreturn %y"),
            "transpose, chain(transpose, conv, transpose)");
  // With one transpose alone the channels may as well be the last.
  EXPECT_EQ(chained(transposed + "%d = " + pixel + "(%t, %we)\n%y = " + back + "(%d)\nreturn %t, %y"),
            "transpose, transpose, conv, transpose");
  EXPECT_EQ(chained(transposed + "%d = " + pixel + "(%t, %we)\n%y = " + back + "(%d)\nreturn %d, %y"),
            "transpose, transpose, conv, transpose");
  EXPECT_EQ(chained("%d = " + pixel + "(%x, %we)\n%y = " + back + "(%d)\nreturn %y"), "conv, transpose");
  // Part of an inverted bottleneck.
  EXPECT_EQ(chained(transposed + "%e = " + pixel + "(%t, %we)\n%d = " + depthwise + "(%e, %wd)\n%y = " + back +
                    "(%d)\nreturn %y"),
            "transpose, transpose, chain(conv, conv), transpose");
}

TEST(ChainConvolutions, AConvolutionOverOneAxisThatStandsAlone) {
  const auto chained_line = [](const std::string& body) {
    Graph graph = graph_of("%x: f32[n, 4, 50]", R"(const %w: f32[8, 4, 3] = 0.5
                                                   const %w40: f32[8, 4, 40] = 0.5
                                                   %t = transpose {permutation=[0, 2, 1]} (%x)
                                                   )" +
                                                    body);
    fuse_and_chain(graph, test_context());
    verify(graph, "the pass under test");
    return outline(graph);
  };
  const std::string conv = "%d = conv {strides=[1], pads=shape(1, 1), dilations=[1], channels_last=true} ";
  const std::string back = "\n%y = transpose {permutation=[0, 2, 1]} (%d)\n";
  EXPECT_EQ(chained_line(conv + "(%t, %w)" + back + "return %y"), "chain(transpose, conv, transpose)");
  EXPECT_EQ(chained_line(conv + "(%t, %w)" + back + "return %d, %y"), "transpose, conv, transpose");
  EXPECT_EQ(chained_line(conv + "(%t, %w)\nreturn %d"), "transpose, conv");
  EXPECT_EQ(chained_line(conv + "(%t, %w40)" + back + "return %y"), "chain(transpose, conv, transpose)");
  // Of 4400 products an element, whose columns would be too many.
  EXPECT_EQ(chained_line("const %w1100: f32[8, 4, 1100] = 0.5\n"
                         "%d = conv {strides=[1], pads=shape(600, 600), dilations=[1], channels_last=true} "
                         "(%t, %w1100)" +
                         back + "return %y"),
            "transpose, conv, transpose");
  const std::string upsampled =
      "%d = conv_transpose {strides=[2], pads=shape(1, 1), dilations=[1], output_padding=shape(0), "
      "channels_last=true} ";
  EXPECT_EQ(chained_line("const %u: f32[4, 40, 4] = 0.5\n" + upsampled + "(%t, %u)" + back + "return %y"),
            "chain(transpose, conv_transpose, transpose)");
}

TEST(ChainConvolutions, AConvolutionOverThreeAxesThatStandsAlone) {
  const auto chained_volume = [](const std::string& body) {
    Graph graph = graph_of("%x: f32[n, 4, 6, 20, 50]", R"(const %w: f32[8, 4, 3, 3, 3] = 0.5
                                                          const %u: f32[4, 8, 2, 2, 2] = 0.5
                                                          %t = transpose {permutation=[0, 2, 3, 4, 1]} (%x)
                                                          )" +
                                                           body);
    fuse_and_chain(graph, test_context());
    verify(graph, "the pass under test");
    return outline(graph);
  };
  const std::string pads = "pads=shape(0, 0, 0, 0, 0, 0), dilations=[1, 1, 1], ";
  const std::string conv = "%d = conv {strides=[1, 1, 1], " + pads + "channels_last=true} (%t, %w)\n";
  const std::string back = "%y = transpose {permutation=[0, 4, 1, 2, 3]} (%d)\nreturn %y";
  EXPECT_EQ(chained_volume(conv + back), "chain(transpose, conv, transpose)");
  EXPECT_EQ(chained_volume(conv + "return %d"), "transpose, conv");
  EXPECT_EQ(chained_volume("%d = conv_transpose {strides=[2, 2, 2], " + pads +
                           "output_padding=shape(0, 0, 0), channels_last=true} (%t, %u)\n" + back),
            "chain(transpose, conv_transpose, transpose)");
}

// Winograd's transforms, which may round more than a part of a chain, compete with it between the transposes.
TEST(ChainConvolutions, AConvolutionThatWinogradMayTakeIsLeftToIt) {
  const auto chained_wide = [](const std::string& weights, const std::string& strides) {
    Graph graph = graph_of("%x: f32[n, 16, 20, 50], %v: f32[16, 16, 3, 3]",
                           "const %w: f32[16, 16, 3, 3] = 0.5\n%t = transpose {permutation=[0, 2, 3, 1]} (%x)\n"
                           "%d = conv {strides=" +
                               strides + ", pads=shape(1, 1, 1, 1), dilations=[1, 1], channels_last=true} (%t, " +
                               weights + ")\n%y = transpose {permutation=[0, 3, 1, 2]} (%d)\nreturn %y");
    fuse_and_chain(graph, test_context());
    return outline(graph);
  };
  EXPECT_EQ(chained_wide("%w", "[1, 1]"), "transpose, conv, transpose");
  EXPECT_EQ(chained_wide("%w", "[2, 2]"), "chain(transpose, conv, transpose)");
  EXPECT_EQ(chained_wide("%v", "[1, 1]"), "chain(transpose, conv, transpose)");
}

// An image of one pixel is what a transpose would make of it.
TEST(ChainConvolutions, AConvolutionOfOnePixelThatStandsAlone) {
  Graph graph = graph_of("%x: f32[n, 1, 1, 24]", R"(
      const %u: f32[24, 8, 3, 3] = 0.5
      %d = conv_transpose {strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1], output_padding=shape(0, 0), channels_last=true} (%x, %u)
      %y = transpose {permutation=[0, 3, 1, 2]} (%d)
      return %y)");
  fuse_and_chain(graph, test_context());
  verify(graph, "the pass under test");
  EXPECT_EQ(outline(graph), "chain(conv_transpose, transpose)");
}

// An image or a result of one channel is what a transpose would make of it.
TEST(ChainConvolutions, AConvolutionOfOneChannelThatStandsAlone) {
  const auto chained_image = [](const std::string& body) {
    Graph graph = graph_of("%x: f32[n, 20, 50, 1], %x3: f32[n, 3, 20, 50]", R"(const %w: f32[8, 1, 3, 3] = 0.5
                                                                               const %w3: f32[1, 3, 3, 3] = 0.5
                                                                               const %u: f32[1, 24, 2, 2] = 0.5
                                                                               )" +
                                                                                body);
    fuse_and_chain(graph, test_context());
    verify(graph, "the pass under test");
    return outline(graph);
  };
  const std::string conv = "conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[2, 2], channels_last=true} ";
  const std::string back = "%y = transpose {permutation=[0, 3, 1, 2]} (%d)\nreturn %y";
  EXPECT_EQ(chained_image("%d = " + conv + "(%x, %w)\n" + back), "chain(conv, transpose)");
  EXPECT_EQ(chained_image("%d = " + conv + "(%x, %w)\nreturn %d"), "conv");
  EXPECT_EQ(chained_image("%t = transpose {permutation=[0, 2, 3, 1]} (%x3)\n%y = " + conv + "(%t, %w3)\nreturn %y"),
            "chain(transpose, conv)");
  EXPECT_EQ(chained_image("%d = conv_transpose {strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1], "
                          "output_padding=shape(0, 0), channels_last=true} (%x, %u)\n" +
                          back),
            "chain(conv_transpose, transpose)");
}

// Columns have room for some thousand products an element; with steps of one pixel and fewer outputs than inputs
// (kn2row) any number may be, of weights that are packed once.
TEST(ChainConvolutions, ManyProductsOfFewOutputs) {
  const auto chained_of = [](const std::string& weights, const std::string& strides, bool are_known = true) {
    Graph graph = graph_of("%x: f32[n, 600, 20, 50]" + (are_known ? "" : ", %w: " + weights),
                           (are_known ? "const %w: " + weights + " = 0.5\n" : "") +
                               "%t = transpose {permutation=[0, 2, 3, 1]} (%x)\n%d = conv {strides=" + strides +
                               ", pads=shape(1, 1, 1, 1), dilations=[1, 1], channels_last=true} (%t, %w)\n"
                               "%y = transpose {permutation=[0, 3, 1, 2]} (%d)\nreturn %y");
    fuse_and_chain(graph, test_context());
    verify(graph, "the pass under test");
    return outline(graph);
  };
  EXPECT_EQ(chained_of("f32[2, 600, 3, 3]", "[1, 1]"), "chain(transpose, conv, transpose)");
  EXPECT_EQ(chained_of("f32[2, 600, 3, 3]", "[1, 1]", false), "transpose, conv, transpose");
  EXPECT_EQ(chained_of("f32[2, 600, 3, 3]", "[1, 2]"), "transpose, conv, transpose");
  EXPECT_EQ(chained_of("f32[600, 600, 3, 3]", "[1, 1]"), "transpose, conv, transpose");
}

// Weights that are no constants are packed in each run where a convolution stands alone, and nowhere else.
TEST(ChainConvolutions, WeightsThatAreInputs) {
  const auto chained_with = [](const std::string& inputs, const std::string& body) {
    Graph graph = graph_of("%x: f32[n, 4, 20, 50], " + inputs,
                           "%t = transpose {permutation=[0, 2, 3, 1]} (%x)\n" + body + "\nreturn %y");
    fuse_and_chain(graph, test_context());
    verify(graph, "the pass under test");
    return outline(graph);
  };
  const std::string back = "\n%y = transpose {permutation=[0, 3, 1, 2]} (%d)", grouped = "groups=4, ";
  const auto conv = [](const std::string& more, const std::string& operands) {
    return "conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], " + more + "channels_last=true} " +
           operands;
  };
  EXPECT_EQ(chained_with("%w: f32[8, 4, 3, 3]", "%d = " + conv("", "(%t, %w)") + back),
            "chain(transpose, conv, transpose)");
  EXPECT_EQ(chained_with("%w: f32[4, 8, 2, 2]",
                         "%d = conv_transpose {strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1], "
                         "output_padding=shape(0, 0), channels_last=true} (%t, %w)" +
                             back),
            "chain(transpose, conv_transpose, transpose)");
  // An inverted bottleneck's parts have constant ones.
  EXPECT_EQ(chained_with("%we: f32[4, 4, 1, 1], %w: f32[4, 1, 3, 3]",
                         "%e = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} "
                         "(%t, %we)\n%d = " +
                             conv(grouped, "(%e, %w)") + back),
            "transpose, conv, conv, transpose");
}

}  // namespace
}  // namespace camshaft::chain_convolutions_test
