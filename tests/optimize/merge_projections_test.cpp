#include "optimize/merge_projections.h"

#include "optimize/pass_test.h"

namespace camshaft {
namespace {

const std::string inputs = "%x: f32[n, 2], %mask: f32[n, n]";

TEST(MergeProjections, QueryKeyAndValue) {
  // Two heads of one element; the key has no bias.
  expect_pass(merge_projections,
              R"(const %a: f32[2, 2] = [1, 2, 3, 4]
                 const %b: f32[2, 2] = [5, 6, 7, 8]
                 const %c: f32[2, 4] = [1, 2, 3, 4, 5, 6, 7, 8]
                 const %d: f32[2] = [10, 20]
                 const %e: f32[4] = [1, 1, 2, 2]
                 %q1 = matmul (%x, %a)
                 %q = pointwise {function=add} (%q1, %d)
                 %k = matmul (%x, %b)
                 %v1 = matmul (%x, %c)
                 %v = pointwise {function=add} (%e, %v1)
                 %y = attention {outer=shape(2), queries=shape(n), keys=shape(n), size=1, value_size=2,
                                 query=shape(0, 1, 2, 1), key=shape(0, 1, 2, 1), value=shape(0, 2, 4, 1),
                                 result=shape(0, 2, 4, 1), shape=shape(n, 4)} (%q, %k, %v)
                 return "y" = %y)",
              R"(const %w: f32[2, 8] = [1, 2, 5, 6, 1, 2, 3, 4, 3, 4, 7, 8, 5, 6, 7, 8]
                 const %bias: f32[8] = [10, 20, 0, 0, 1, 1, 2, 2]
                 %p = matmul (%x, %w)
                 %r = pointwise {function=add} (%p, %bias)
                 %y = attention {outer=shape(2), queries=shape(n), keys=shape(n), size=1, value_size=2,
                                 query=shape(0, 1, 8, 1), key=shape(2, 1, 8, 1), value=shape(4, 2, 8, 1),
                                 result=shape(0, 2, 4, 1), shape=shape(n, 4)} (%r, %r, %r)
                 return "y" = %y)",
              inputs);
}

TEST(MergeProjections, TransposedWeightsOfKeyAndValue) {
  expect_pass(merge_projections,
              R"(const %b: f32[1, 2] = [5, 6]
                 const %c: f32[1, 2] = [7, 8]
                 %k = matmul {transpose_b=true} (%x, %b)
                 %v = matmul {transpose_b=true} (%x, %c)
                 %y = attention {queries=shape(n), keys=shape(n), query=shape(0, 2, 1), key=shape(0, 1, 1),
                                 value=shape(0, 1, 1), result=shape(0, 1, 1), shape=shape(n)} (%x, %k, %v)
                 return "y" = %y)",
              R"(const %w: f32[2, 2] = [5, 6, 7, 8]
                 %p = matmul {transpose_b=true} (%x, %w)
                 %y = attention {queries=shape(n), keys=shape(n), query=shape(0, 2, 1), key=shape(0, 2, 2),
                                 value=shape(1, 2, 2), result=shape(0, 1, 1), shape=shape(n)} (%x, %p, %p)
                 return "y" = %y)",
              inputs);
}

TEST(MergeProjections, ScalarsAreNoBiases) {
  expect_unchanged(merge_projections,
                   R"(const %b: f32[2, 1] = [5, 6]
                      const %one: f32[] = 1
                      %k = matmul (%x, %b)
                      %y = pointwise {function=add} (%k, %one)
                      return "y" = %y)",
                   inputs);
}

TEST(MergeProjections, OtherReadersKeepTheirs) {
  expect_unchanged(merge_projections,
                   R"(const %b: f32[2, 1] = [5, 6]
                      const %c: f32[2, 1] = [7, 8]
                      %k = matmul (%x, %b)
                      %v = matmul (%x, %c)
                      %y = attention {queries=shape(n), keys=shape(n), query=shape(0, 2, 1), key=shape(0, 1, 1),
                                      value=shape(0, 1, 1), result=shape(0, 1, 1), shape=shape(n)} (%x, %k, %v)
                      return "y" = %y, "k" = %k)",
                   inputs);
  // A query goes on in the next row.
  expect_unchanged(merge_projections,
                   R"(const %b: f32[2, 2] = [5, 6, 7, 8]
                      const %c: f32[2, 2] = [7, 8, 9, 10]
                      %q = matmul (%x, %b)
                      %v = matmul (%x, %c)
                      %y = attention {queries=shape(1), keys=shape(1), size=3, query=shape(0, 1, 1),
                                      key=shape(0, 1, 1), value=shape(0, 1, 1), result=shape(0, 1, 1),
                                      shape=shape(1)} (%q, %x, %v)
                      return "y" = %y)",
                   inputs);
}

}  // namespace
}  // namespace camshaft
