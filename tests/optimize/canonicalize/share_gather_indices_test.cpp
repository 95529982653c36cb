#include "optimize/canonicalize/share_gather_indices.h"

#include "optimize/pass_test.h"

namespace camshaft::share_gather_indices_test {
namespace {

// Relative positions, clamped to the table of embeddings, the same for all heads.
TEST(ShareGatherIndices, RelativePositions) {
  expect_pass(share_gather_indices, R"(const %low: i64[] = 0
                                       const %high: i64[] = 15
                                       %above = pointwise {function=max} (%distances, %low)
                                       %inside = pointwise {function=min} (%above, %high)
                                       %all = expand {shape=shape(h, q, k)} (%inside)
                                       %y = gather_elements {axis=2} (%x, %all)
                                       return %y)",
              R"(const %low: i64[] = 0
                 const %high: i64[] = 15
                 const %zero: i64[] = 0
                 const %one: i64[] = 1
                 const %size: i64[] = 16
                 %above = pointwise {function=max} (%distances, %low)
                 %inside = pointwise {function=min} (%above, %high)
                 %once = reshape {shape=shape(q, k), allow_zero=false} (%inside)
                 %rows = dims {elements=shape(q), dtype=i64, scalar=true} ()
                 %row = range (%zero, %rows, %one)
                 %start = pointwise {function=mul} (%row, %size)
                 %column = reshape {shape=shape(q, 1), allow_zero=false} (%start)
                 %places = pointwise {function=add} (%column, %once)
                 %flat = reshape {shape=shape(h, q*16), allow_zero=false} (%x)
                 %y = gather {axis=1} (%flat, %places)
                 return %y)",
              "%x: f32[h, q, 16], %distances: i64[1, q, k]");
}

TEST(ShareGatherIndices, OneRowForAll) {
  expect_pass(share_gather_indices, R"(const %indices: i64[2, 3] = [0, 3, 1, 0, 3, 1]
                                       %y = gather_elements {axis=1} (%x, %indices)
                                       return %y)",
              R"(const %indices: i64[2, 3] = [0, 3, 1, 0, 3, 1]
                 %first = slice {axes=[0], starts=shape(0), counts=shape(1), steps=[1]} (%indices)
                 %once = reshape {shape=shape(3), allow_zero=false} (%first)
                 %y = gather {axis=1} (%x, %once)
                 return %y)",
              "%x: f32[2, 4]");
}

// An index that may be beyond the axis, rows with indices of their own, and fewer rows than the tensor has.
TEST(ShareGatherIndices, StaysWhereItCannotBeTold) {
  expect_unchanged(share_gather_indices, R"(%all = expand {shape=shape(h, q, k)} (%distances)
                                            %y = gather_elements {axis=2} (%x, %all)
                                            return %y)",
                   "%x: f32[h, q, 16], %distances: i64[1, q, k]");
  expect_unchanged(share_gather_indices, R"(const %indices: i64[2, 3] = [0, 3, 1, 0, 3, 2]
                                            %y = gather_elements {axis=1} (%x, %indices)
                                            return %y)",
                   "%x: f32[2, 4]");
  expect_unchanged(share_gather_indices, R"(const %indices: i64[2, 3] = [0, 3, 1, 0, 3, 1]
                                            %y = gather_elements {axis=1} (%x, %indices)
                                            return %y)",
                   "%x: f32[3, 4]");
  expect_unchanged(share_gather_indices, R"(const %indices: i64[2, 3] = [0, -1, 1, 0, -1, 1]
                                            %y = gather_elements {axis=1} (%x, %indices)
                                            return %y)",
                   "%x: f32[2, 4]");
}

}  // namespace
}  // namespace camshaft::share_gather_indices_test
