#include "backends/cuda/passes/chain_squeeze_excite.h"

#include "ir/ops/region.h"
#include "optimize/fuse/fuse.h"
#include "optimize/outline.h"
#include "optimize/pass_test.h"

namespace camshaft::chain_squeeze_excite_test {
namespace {

constexpr const char* image = "%x: f32[n, h, 10, 8], %r: f32[n, h, 10, 8]";
const std::string weights = R"(
  const %w1: f32[4, 8, 1, 1] = 0.5
  const %b1: f32[4] = 0.25
  const %w2: f32[8, 4, 1, 1] = 0.5
  const %b2: f32[8] = 0.25
  )";
const std::string mean = "reduce {kind=mean, axes=[1, 2], keep_dims=true} ";
const std::string pixel = "conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} ";

std::string chained(const std::string& body) {
  Graph graph = parse_graph("graph \"g\" (" + std::string(image) + ") {" + weights + body + "\n}", operators());
  fuse(graph, test_context());
  chain_squeeze_excite(graph, test_context());
  verify(graph, "the pass under test");
  return outline(graph);
}

TEST(ChainSqueezeExcite, MeanTwoProductsAndTheirGates) {
  const std::string parts = "%m = " + mean + "(%x)\n%s = " + pixel + "(%m, %w1, %b1)\n%e = " + pixel +
                            "(%s, %w2, %b2)\n%y = pointwise {function=mul} (%e, %x)\n";
  expect_pass(chain_squeeze_excite, weights + parts + "return \"y\" = %y",
              weights + R"(%y = region {kind=chain} (%x, %w1, %b1, %w2, %b2)
                   graph (%x: f32[n, h, 10, 8], %w1: f32[4, 8, 1, 1], %b1: f32[4], %w2: f32[8, 4, 1, 1], %b2: f32[8]) {
                     )" +
                  parts +
                  R"(return %y
                   }
                 return "y" = %y)",
              image);
}

TEST(ChainSqueezeExcite, PartsKeepWhatIsBehindThem) {
  EXPECT_EQ(chained("%m = " + mean + "(%x)\n%s = " + pixel + R"((%m, %w1, %b1)
                     %a = pointwise {function=sigmoid} (%s)
                     %b = pointwise {function=mul} (%s, %a)
                     %e = )" +
                    pixel + R"((%b, %w2)
                     %g = pointwise {function=sigmoid} (%e)
                     %t = pointwise {function=mul} (%x, %g)
                     %y = pointwise {function=add} (%t, %r)
                     return %y)"),
            "chain(reduce, contract(conv, pointwise, pointwise), contract(conv, pointwise), "
            "pointwise(pointwise, pointwise))");
}

TEST(ChainSqueezeExcite, NobodyElseReadsWhatLiesBetween) {
  const std::string rest = " = " + pixel + "(%m, %w1, %b1)\n%e = " + pixel + R"((%s, %w2, %b2)
                     %y = pointwise {function=mul} (%e, %x)
                     return %y, )";
  EXPECT_EQ(chained("%m = " + mean + "(%x)\n%s" + rest + "%x"), "chain(reduce, conv, conv, pointwise)");
  EXPECT_EQ(chained("%m = " + mean + "(%x)\n%s" + rest + "%m"), "reduce, conv, conv, pointwise");
  EXPECT_EQ(chained("%m = " + mean + "(%x)\n%s" + rest + "%e"), "reduce, conv, conv, pointwise");
}

TEST(ChainSqueezeExcite, GatesOfAnotherImage) {
  EXPECT_EQ(chained("%m = " + mean + "(%x)\n%s = " + pixel + "(%m, %w1)\n%e = " + pixel + R"((%s, %w2)
                     %y = pointwise {function=mul} (%e, %r)
                     return %y)"),
            "reduce, conv, conv, pointwise");
}

}  // namespace
}  // namespace camshaft::chain_squeeze_excite_test
