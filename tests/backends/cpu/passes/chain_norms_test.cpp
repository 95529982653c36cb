#include "backends/cpu/passes/chain_norms.h"

#include "optimize/pass_test.h"

namespace camshaft::chain_norms_test {
namespace {

constexpr const char* inputs = "%x: f16[n, 30], %s: f32[30]";

TEST(ChainNorms, BetweenCasts) {
  expect_pass(chain_norms,
              R"(%w = cast {to=f32} (%x)
                 %n = layer_norm {axis=1, root_mean_square=true} (%w, %s)
                 %y = cast {to=f16} (%n)
                 return "y" = %y)",
              R"(%y = region {kind=chain} (%x, %s)
                   graph (%x: f16[n, 30], %s: f32[30]) {
                     %w = cast {to=f32} (%x)
                     %n = layer_norm {axis=1, root_mean_square=true} (%w, %s)
                     %y = cast {to=f16} (%n)
                     return %y
                   }
                 return "y" = %y)",
              inputs);
}

TEST(ChainNorms, OneCastAlone) {
  expect_pass(chain_norms,
              R"(%w = cast {to=f32} (%x)
                 %y = layer_norm {axis=1} (%w, %s)
                 return "y" = %y)",
              R"(%y = region {kind=chain} (%x, %s)
                   graph (%x: f16[n, 30], %s: f32[30]) {
                     %w = cast {to=f32} (%x)
                     %y = layer_norm {axis=1} (%w, %s)
                     return %y
                   }
                 return "y" = %y)",
              inputs);
}

TEST(ChainNorms, BehindWhatItAloneReads) {
  expect_pass(chain_norms,
              R"(%w = pointwise {function=add} (%a, %b)
                 %y = layer_norm {axis=1} (%w, %s)
                 return "y" = %y)",
              R"(%y = region {kind=chain} (%a, %b, %s)
                   graph (%a: f32[n, 30], %b: f32[30], %s: f32[30]) {
                     %w = pointwise {function=add} (%a, %b)
                     %y = layer_norm {axis=1} (%w, %s)
                     return %y
                   }
                 return "y" = %y)",
              "%a: f32[n, 30], %b: f32[30], %s: f32[30]");
  expect_unchanged(chain_norms,
                   R"(%w = pointwise {function=add} (%a, %b)
                      %y = layer_norm {axis=1} (%w, %s)
                      return "y" = %y, "w" = %w)",
                   "%a: f32[n, 30], %b: f32[30], %s: f32[30]");
}

TEST(ChainNorms, NotWhatOthersReadOrHasLongRows) {
  expect_unchanged(chain_norms,
                   R"(%w = cast {to=f32} (%x)
                      %y = layer_norm {axis=1} (%w, %s)
                      return "y" = %y, "w" = %w)",
                   inputs);
  const std::string both = R"(%w = cast {to=f32} (%x)
                              %n = layer_norm {axis=1} (%w)
                              %y = cast {to=f16} (%n)
                              return "y" = %y)";
  expect_unchanged(chain_norms, both, "%x: f16[2, 16385]");
  expect_unchanged(chain_norms, both, "%x: f16[2, n]");
  expect_unchanged(chain_norms,
                   R"(%w = cast {to=f32} (%x)
                      %n = layer_norm {axis=1} (%w)
                      %y = cast {to=i32} (%n)
                      return "y" = %y)",
                   "%x: i32[2, 30]");
}

}  // namespace
}  // namespace camshaft::chain_norms_test
