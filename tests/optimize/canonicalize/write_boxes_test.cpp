#include "optimize/canonicalize/write_boxes.h"

#include "optimize/pass_test.h"

namespace camshaft::write_boxes_test {
namespace {

// x[:, 1:3] = u, through columns of numbers side by side.
TEST(WriteBoxes, ColumnsOfIndices) {
  expect_pass(write_boxes, R"(const %rows: i64[2, 1] = [0, 1]
                              const %columns: i64[2] = [1, 2]
                              %r = expand {shape=shape(2, 2)} (%rows)
                              %r1 = reshape {shape=shape(2, 2, 1), allow_zero=false} (%r)
                              %c = expand {shape=shape(2, 2)} (%columns)
                              %c1 = reshape {shape=shape(2, 2, 1), allow_zero=false} (%c)
                              %i = concat {axis=2} (%r1, %c1)
                              %y = scatter_nd {kind=assign} (%x, %i, %u)
                              return %y)",
              R"(%before = slice {axes=[1], starts=shape(0), counts=shape(1), steps=[1]} (%x)
                 %behind = slice {axes=[1], starts=shape(3), counts=shape(2), steps=[1]} (%x)
                 %y = concat {axis=1} (%before, %u, %behind)
                 return %y)",
              "%x: f32[2, 5], %u: f32[2, 2]");
}

// Of constants, from the end, of rows as a whole; the model's input cannot be written into.
TEST(WriteBoxes, ConstantIndicesOfOpenRows) {
  expect_pass(write_boxes, R"(const %i: i64[2, 1] = [-2, -1]
                              %y = scatter_nd {kind=assign} (%x, %i, %u)
                              return %y)",
              R"(%before = slice {axes=[0], starts=shape(0), counts=shape(4), steps=[1]} (%x)
                 %y = concat {axis=0} (%before, %u)
                 return %y)",
              "%x: f32[6, n], %u: f32[2, n]");
}

// All batches, however many there are: x[:, 2] += u.
TEST(WriteBoxes, OpenSizesAndSums) {
  expect_pass(write_boxes, R"(const %zero: i64[] = 0
                              const %one: i64[] = 1
                              const %two: i64[1, 1] = 2
                              %n = dims {elements=shape(b), dtype=i64, scalar=true} ()
                              %range = range (%zero, %n, %one)
                              %rows = reshape {shape=shape(b, 1), allow_zero=false} (%range)
                              %column = expand {shape=shape(b, 1)} (%two)
                              %i = concat {axis=1} (%rows, %column)
                              %y = scatter_nd {kind=add} (%x, %i, %u)
                              return %y)",
              R"(%column = reshape {shape=shape(b, 1), allow_zero=false} (%u)
                 %own = slice {axes=[1], starts=shape(2), counts=shape(1), steps=[1]} (%x)
                 %sum = pointwise {function=add} (%own, %column)
                 %before = slice {axes=[1], starts=shape(0), counts=shape(2), steps=[1]} (%x)
                 %behind = slice {axes=[1], starts=shape(3), counts=shape(1), steps=[1]} (%x)
                 %y = concat {axis=1} (%before, %sum, %behind)
                 return %y)",
              "%x: f32[b, 4], %u: f32[b]");
}

TEST(WriteBoxes, AllOfATensor) {
  expect_pass(write_boxes, R"(const %i: i64[2, 3, 2] = [0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2]
                              %e = pointwise {function=exp} (%x)
                              %y = scatter_nd {kind=assign} (%e, %i, %u)
                              return %y)",
              "return y=%u", "%x: f32[2, 3], %u: f32[2, 3]");
}

TEST(WriteBoxes, BoxesWithinTwoAxes) {
  expect_pass(write_boxes, R"(const %i: i64[1, 2, 2] = [1, 0, 1, 1]
                              %y = scatter_nd {kind=max} (%x, %i, %u)
                              return %y)",
              R"(%row = slice {axes=[0], starts=shape(1), counts=shape(1), steps=[1]} (%x)
                 %own = slice {axes=[1], starts=shape(0), counts=shape(2), steps=[1]} (%row)
                 %more = pointwise {function=max} (%own, %u)
                 %above = slice {axes=[0], starts=shape(0), counts=shape(1), steps=[1]} (%x)
                 %inner = slice {axes=[0], starts=shape(1), counts=shape(1), steps=[1]} (%x)
                 %behind = slice {axes=[1], starts=shape(2), counts=shape(1), steps=[1]} (%inner)
                 %line = concat {axis=1} (%more, %behind)
                 %y = concat {axis=0} (%above, %line)
                 return %y)",
              "%x: f32[2, 3], %u: f32[1, 2]");
}

TEST(WriteBoxes, ElementsAlongAnAxis) {
  expect_pass(write_boxes, R"(const %range: i64[1, 2, 1] = [1, 2]
                              %i = expand {shape=shape(2, 2, 3)} (%range)
                              %y = scatter_elements {axis=1, kind=assign} (%x, %i, %u)
                              return %y)",
              R"(%before = slice {axes=[1], starts=shape(0), counts=shape(1), steps=[1]} (%x)
                 %y = concat {axis=1} (%before, %u)
                 return %y)",
              "%x: f32[2, 3, 3], %u: f32[2, 2, 3]");
}

// scores[:, 1:, 1:] += a + b, which are by lines and by columns of an image.
TEST(WriteBoxes, MasksOfScores) {
  expect_pass(write_boxes, R"(const %range: i64[4] = [1, 2, 3, 4]
                              const %lines: i64[4, 1] = [1, 2, 3, 4]
                              const %zero: i64[1, 1, 1, 1] = 0
                              %own = slice {axes=[1, 2], starts=shape(1, 1), counts=shape(4, 4), steps=[1, 1]} (%x)
                              %view = reshape {shape=shape(1, 4, 2, 2), allow_zero=false} (%own)
                              %s = pointwise {function=add} (%view, %a)
                              %t = pointwise {function=add} (%b, %s)
                              %u = reshape {shape=shape(1, 4, 4), allow_zero=false} (%t)
                              %h = expand {shape=shape(1, 4, 4, 1)} (%zero)
                              %q = expand {shape=shape(1, 4, 4)} (%lines)
                              %q1 = reshape {shape=shape(1, 4, 4, 1), allow_zero=false} (%q)
                              %k = expand {shape=shape(1, 4, 4)} (%range)
                              %k1 = reshape {shape=shape(1, 4, 4, 1), allow_zero=false} (%k)
                              %i = concat {axis=3} (%h, %q1, %k1)
                              %w = scatter_nd {kind=assign} (%x, %i, %u)
                              %y = softmax {axis=2} (%w)
                              return %y)",
              R"(%sum = pointwise {function=add} (%a, %b)
                 %mask = reshape {shape=shape(1, 4, 4), allow_zero=false} (%sum)
                 %padded = pad {mode=constant, pads=shape(0, 1, 1, 0, 0, 0)} (%mask)
                 %w = pointwise {function=add} (%x, %padded)
                 %y = softmax {axis=2} (%w)
                 return %y)",
              "%x: f32[1, 5, 5], %a: f32[1, 4, 2, 1], %b: f32[1, 4, 1, 2]");
}

// An index twice, backwards, by twos, beyond the tensor or not known to lie in it, axes in another order, updates of an
// open size; and few slices of what can be written into.
TEST(WriteBoxes, StaysWhereItIsNoBox) {
  for (const char* indices : {"[1, 1]", "[2, 1]", "[0, 2]", "[4, 5]", "[-1, 0]"})
    expect_unchanged(
        write_boxes,
        "const %i: i64[2, 1] = " + std::string(indices) + "\n%y = scatter_nd {kind=assign} (%x, %i, %u)\nreturn %y",
        "%x: f32[5, 3], %u: f32[2, 3]");
  expect_unchanged(write_boxes, R"(const %i: i64[2, 1] = [1, 2]
                                   %y = scatter_nd {kind=assign} (%x, %i, %u)
                                   return %y)",
                   "%x: f32[n, 3], %u: f32[2, 3]");
  expect_unchanged(write_boxes, R"(const %i: i64[2, 2, 2] = [0, 0, 1, 0, 0, 1, 1, 1]
                                   %y = scatter_nd {kind=assign} (%x, %i, %u)
                                   return %y)",
                   "%x: f32[3, 3], %u: f32[2, 2]");
  expect_unchanged(write_boxes, R"(const %i: i64[2, 2, 1] = [0, 1, 0, 1]
                                   %y = scatter_nd {kind=assign} (%x, %i, %u)
                                   return %y)",
                   "%x: f32[3, 3], %u: f32[2, 2, 3]");
  expect_unchanged(write_boxes, R"(const %i: i64[2, 1] = [1, 2]
                                   %y = scatter_nd {kind=assign} (%x, %i, %u)
                                   return %y)",
                   "%x: f32[5, 3], %u: f32[k, 3]");
  expect_unchanged(write_boxes, R"(const %i: i64[1, 1] = 3
                                   %e = pointwise {function=exp} (%x)
                                   %y = scatter_nd {kind=assign} (%e, %i, %u)
                                   return %y)",
                   "%x: f32[500, 30], %u: f32[1, 30]");
  expect_unchanged(write_boxes, R"(const %i: i64[2, 2] = [1, 1, 2, 2]
                                   %y = scatter_elements {axis=0, kind=assign} (%x, %i, %u)
                                   return %y)",
                   "%x: f32[3, n], %u: f32[2, 2]");
}

}  // namespace
}  // namespace camshaft::write_boxes_test
