#include "backends/cpu/passes/chain_fills.h"

#include "optimize/pass_test.h"

namespace camshaft::chain_fills_test {
namespace {

constexpr const char* inputs = "%i: i64[n], %u: f32[n]";

TEST(ChainFills, AScatterIntoOneElement) {
  expect_pass(chain_fills,
              R"(const %zero: f32[1] = 0
                 %f = expand {shape=shape(100)} (%zero)
                 %y = scatter_elements (%f, %i, %u)
                 return "y" = %y)",
              R"(const %zero: f32[1] = 0
                 %y = region {kind=chain} (%zero, %i, %u)
                   graph (%zero: f32[1], %i: i64[n], %u: f32[n]) {
                     %f = expand {shape=shape(100)} (%zero)
                     %y = scatter_elements (%f, %i, %u)
                     return %y
                   }
                 return "y" = %y)",
              inputs);
}

TEST(ChainFills, NotWhatIsMoreOrReadElsewhereOrCombined) {
  const std::string fill = R"(const %zero: f32[1] = 0
                              %f = expand {shape=shape(100)} (%zero)
                              )";
  expect_unchanged(chain_fills, fill + R"(%y = scatter_elements (%f, %i, %u)
                                          return "y" = %y, "f" = %f)",
                   inputs);
  expect_unchanged(chain_fills, fill + R"(%y = scatter_elements {kind=add} (%f, %i, %u)
                                          return "y" = %y)",
                   inputs);
  expect_unchanged(chain_fills, R"(const %two: f32[1, 2] = [1, 2]
                                   %f = expand {shape=shape(100, 2)} (%two)
                                   %y = scatter_nd (%f, %i, %u)
                                   return "y" = %y)",
                   "%i: i64[n, 1], %u: f32[n, 2]");
}

}  // namespace
}  // namespace camshaft::chain_fills_test
