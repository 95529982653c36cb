#include "optimize/layout/compose_transposes.h"

#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"

namespace camshaft::compose_transposes_test {
namespace {

// A channels-last image that is cut into 2 x 2 patches, channels first in between, as MobileViT does.
constexpr const char* patches = R"(
  %a = transpose {permutation=[0, 3, 1, 2]} (%x)
  %b = reshape {shape=shape(48*n, 2, 6, 2)} (%a)
  %c = transpose {permutation=[0, 2, 1, 3]} (%b)
  %d = reshape {shape=shape(n, 12, 24, 4)} (%c)
  %e = transpose {permutation=[0, 3, 2, 1]} (%d)
  %y = reshape {shape=shape(4*n, 24, 12)} (%e)
  return "y" = %y)";

TEST(ComposeTransposes, PatchesOfAnImageMoveRowsOfChannels) {
  expect_pass(compose_transposes, patches, R"(
  %a = reshape {shape=shape(n, 4, 2, 6, 2, 12)} (%x)
  %b = transpose {permutation=[0, 2, 4, 1, 3, 5]} (%a)
  %c = reshape {shape=shape(n, 4, 24, 12)} (%b)
  %y = reshape {shape=shape(4*n, 24, 12)} (%c)
  return "y" = %y)",
              "%x: f32[n, 8, 12, 12]");
}

TEST(ComposeTransposes, GiveWhatTheChainGives) {
  Random random = test_random();
  for (const char* body : {patches, R"(
  %a = transpose {permutation=[3, 1, 0, 2]} (%x)
  %b = reshape {shape=shape(4, 3, 2, 4, 12*n)} (%a)
  %y = transpose {permutation=[4, 1, 0, 3, 2]} (%b)
  return "y" = %y)",
                           R"(
  %a = transpose {permutation=[0, 2, 1, 3]} (%x)
  %b = reshape {shape=shape(n, 6, 2, 96)} (%a)
  %c = transpose {permutation=[0, 3, 1, 2]} (%b)
  %d = reshape {shape=shape(8, 12, n, 12)} (%c)
  %y = transpose {permutation=[2, 0, 3, 1]} (%d)
  return "y" = %y)"}) {
    const Graph before = graph_of("%x: f32[n, 8, 12, 12]", body);
    Graph after = before;
    compose_transposes(after, test_context());
    verify(after, "the pass under test");
    const Tensor x = random_tensor(random, DType::f32, {3, 8, 12, 12});
    EXPECT_EQ(evaluate(after, {x}, test_pool())[0], evaluate(before, {x}, test_pool())[0]) << print(after);
  }
}

TEST(ComposeTransposes, ToAndBackIsNothing) {
  expect_pass(compose_transposes, R"(
  %a = transpose {permutation=[1, 0]} (%x)
  %b = reshape {shape=shape(3, 1, 2)} (%a)
  %y = transpose {permutation=[2, 1, 0]} (%b)
  return "y" = %y)",
              R"(
  %y = reshape {shape=shape(2, 1, 3)} (%x)
  return "y" = %y)");
}

TEST(ComposeTransposes, NotPastWhatIsReadElsewhere) {
  expect_unchanged(compose_transposes, R"(
  %a = transpose {permutation=[1, 0]} (%x)
  %b = reshape {shape=shape(3, 1, 2)} (%a)
  %y = transpose {permutation=[2, 1, 0]} (%b)
  return "y" = %y, "a" = %a)");
}

TEST(ComposeTransposes, NotIntoMoreAxesThanAGpuWalks) {
  expect_unchanged(compose_transposes, R"(
  %a = transpose {permutation=[6, 5, 4, 3, 2, 1, 0]} (%x)
  %b = reshape {shape=shape(21, 2, 2, 2, 2, 2)} (%a)
  %y = transpose {permutation=[2, 0, 4, 1, 5, 3]} (%b)
  return "y" = %y)",
                   "%x: f32[2, 2, 2, 2, 2, 3, 7]");
}

TEST(ComposeTransposes, NotWhereSizesDoNotDivide) {
  expect_unchanged(compose_transposes, R"(
  %a = transpose {permutation=[1, 0]} (%x)
  %b = reshape {shape=shape(2, 3)} (%a)
  %y = transpose {permutation=[1, 0]} (%b)
  return "y" = %y)");
}

}  // namespace
}  // namespace camshaft::compose_transposes_test
