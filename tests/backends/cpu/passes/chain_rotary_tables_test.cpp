#include "backends/cpu/passes/chain_rotary_tables.h"

#include "optimize/pass_test.h"

namespace camshaft::chain_rotary_tables_test {
namespace {

const std::string inputs = "%x: f32[1, 2, n, 8], %c: f32[m, 4], %s: f32[m, 4], %p: i64[1, n]";
const std::string rotary =
    "rotary_embedding {interleaved=false, rotated=8, whole_tables=true, axes=shape(1, 2, n), x=shape(0, 0, 8*n, 8), "
    "cosine=shape(0, 0, 0, 4, 0, 1), sine=shape(0, 0, 0, 4, 0, 1), shape=shape(1, 2, n, 8)}";

TEST(ChainRotaryTables, GathersAndReshapes) {
  expect_pass(chain_rotary_tables,
              R"(%a = gather {axis=0} (%c, %p)
                 %b = reshape {shape=shape(1, 1, n, 4), allow_zero=false} (%a)
                 %d = gather {axis=0} (%s, %p)
                 %y = )" +
                  rotary + R"( (%x, %b, %d)
                 return "y" = %y)",
              R"(%y = region {kind=chain} (%c, %p, %s, %x)
                   graph (%c: f32[m, 4], %p: i64[1, n], %s: f32[m, 4], %x: f32[1, 2, n, 8]) {
                     %a = gather {axis=0} (%c, %p)
                     %b = reshape {shape=shape(1, 1, n, 4), allow_zero=false} (%a)
                     %d = gather {axis=0} (%s, %p)
                     %y = )" +
                  rotary + R"( (%x, %b, %d)
                     return %y
                   }
                 return "y" = %y)",
              inputs);
}

TEST(ChainRotaryTables, NotRowsThatOthersRead) {
  expect_unchanged(chain_rotary_tables,
                   R"(%a = gather {axis=0} (%c, %p)
                      %y = )" +
                       rotary + R"( (%x, %a, %a)
                      return "y" = %y)",
                   inputs);
}

TEST(ChainRotaryTables, NotColumns) {
  expect_unchanged(chain_rotary_tables,
                   R"(%a = gather {axis=1} (%c, %p)
                      %b = reshape {shape=shape(n, 4), allow_zero=false} (%a)
                      %y = )" +
                       rotary + R"( (%x, %b, %s)
                      return "y" = %y)",
                   "%x: f32[1, 2, n, 8], %c: f32[4, m], %s: f32[n, 4], %p: i64[1, n]");
}

}  // namespace
}  // namespace camshaft::chain_rotary_tables_test
