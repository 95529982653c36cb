#include "optimize/canonicalize/simplify_moves.h"

#include "optimize/pass_test.h"

namespace camshaft::simplify_moves_test {
namespace {

TEST(SimplifyMoves, RemovesIdentities) {
  expect_pass(simplify_moves,
              R"(%a = reshape {shape=shape(n, 3)} (%x)
                 %b = transpose {permutation=[0, 1]} (%a)
                 %c = expand {shape=shape(1, 3)} (%b)
                 %d = slice {axes=[1, 0], starts=shape(0, 0), counts=shape(3, n), steps=[1, 1]} (%c)
                 %e = pad {pads=shape(0, 0, 0, 0)} (%d)
                 %f = concat {axis=1} (%e)
                 %g = cast {to=f32} (%f)
                 %h = reduce {kind=mean, axes=[]} (%g)
                 %y = pointwise {function=exp} (%h)
                 return "y" = %y, "x" = %h)",
              R"(%y = pointwise {function=exp} (%x)
                 return "y" = %y, "x" = %x)",
              "%x: f32[n, 3]");
}

TEST(SimplifyMoves, ReductionsKeepDimsThatComeBack) {
  expect_pass(simplify_moves,
              R"(%a = reduce {kind=max, axes=[1], keep_dims=false} (%x)
                 %y = reshape {shape=shape(n, 1, 4)} (%a)
                 return "y" = %y)",
              R"(%y = reduce {kind=max, axes=[1]} (%x)
                 return "y" = %y)",
              "%x: f32[n, 3, 4]");
  // Elsewhere, and of what others read.
  expect_unchanged(simplify_moves,
                   R"(%a = reduce {kind=max, axes=[1], keep_dims=false} (%x)
                      %y = reshape {shape=shape(n, 4, 1)} (%a)
                      return "y" = %y)",
                   "%x: f32[n, 3, 4]");
  expect_unchanged(simplify_moves,
                   R"(%a = reduce {kind=max, axes=[1], keep_dims=false} (%x)
                      %y = reshape {shape=shape(n, 1, 4)} (%a)
                      return "y" = %y, "a" = %a)",
                   "%x: f32[n, 3, 4]");
}

TEST(SimplifyMoves, MergesChains) {
  expect_pass(simplify_moves,
              R"(%a = reshape {shape=shape(3, 8)} (%x)
                 %b = reshape {shape=shape(4, 6)} (%a)
                 %c = transpose {permutation=[1, 2, 0]} (%x)
                 %d = transpose {permutation=[2, 1, 0]} (%c)
                 return "b" = %b, "d" = %d)",
              R"(%b = reshape {shape=shape(4, 6)} (%x)
                 %d = transpose {permutation=[0, 2, 1]} (%x)
                 return "b" = %b, "d" = %d)",
              "%x: f32[2, 3, 4]");
  expect_pass(simplify_moves,
              R"(%a = transpose {permutation=[1, 2, 0]} (%x)
                 %b = transpose {permutation=[2, 0, 1]} (%a)
                 %c = reshape {shape=shape(24)} (%x)
                 %d = reshape {shape=shape(2, 3, 4)} (%c)
                 return "b" = %b, "d" = %d)",
              R"(return "b" = %x, "d" = %x)", "%x: f32[2, 3, 4]");
  expect_pass(simplify_moves,
              R"(%a = slice {axes=[0, 1], starts=shape(8, 1), counts=shape(4, 3), steps=[-2, 1]} (%x)
                 %b = slice {axes=[0], starts=shape(1), counts=shape(2), steps=[2]} (%a)
                 return "b" = %b)",
              R"(%b = slice {axes=[0, 1], starts=shape(6, 1), counts=shape(2, 3), steps=[-4, 1]} (%x)
                 return "b" = %b)",
              "%x: f32[9, 4]");
  // Of one element each: the product of the steps would not fit.
  expect_unchanged(simplify_moves,
                   R"(%a = slice {axes=[0], starts=shape(1), counts=shape(1), steps=[4611686018427387904]} (%x)
                      %b = slice {axes=[0], starts=shape(0), counts=shape(1), steps=[4611686018427387904]} (%a)
                      return "b" = %b)");
}

TEST(SimplifyMoves, TransposesOfSizeOneAxesAreReshapes) {
  expect_pass(simplify_moves,
              R"(%a = transpose {permutation=[0, 3, 1, 2]} (%x)
                 %b = reshape {shape=shape(n, 5)} (%a)
                 return "b" = %b)",
              R"(%b = reshape {shape=shape(n, 5)} (%x)
                 return "b" = %b)",
              "%x: f32[n, 1, 1, 5]");
  expect_unchanged(simplify_moves, R"(%a = transpose {permutation=[0, 3, 1, 2]} (%x)
                                      return "a" = %a)",
                   "%x: f32[n, 2, 1, 5]");
}

TEST(SimplifyMoves, EmptyOperandsOfConcat) {
  expect_pass(simplify_moves,
              R"(const %e: f32[2, 0] = []
                 %c = concat {axis=1} (%e, %x)
                 %d = concat {axis=1} (%x, %e, %x)
                 return "c" = %c, "d" = %d)",
              R"(%d = concat {axis=1} (%x, %x)
                 return "c" = %x, "d" = %d)");
}

TEST(SimplifyMoves, GatherOfOneElementIsASlice) {
  expect_pass(simplify_moves,
              R"(const %i: i64[] = -1
                 %y = gather {axis=0} (%x, %i)
                 return "y" = %y)",
              R"(%s = slice {axes=[0], starts=shape(1), counts=shape(1), steps=[1]} (%x)
                 %y = reshape {shape=shape(3)} (%s)
                 return "y" = %y)");
}

TEST(SimplifyMoves, GatherOfALineIsASlice) {
  expect_pass(simplify_moves,
              R"(const %i: i64[1, 2] = [0, -1]
                 %y = gather {axis=1} (%x, %i)
                 return "y" = %y)",
              R"(%s = slice {axes=[1], starts=shape(0), counts=shape(2), steps=[2]} (%x)
                 %y = reshape {shape=shape(2, 1, 2)} (%s)
                 return "y" = %y)");
  expect_pass(simplify_moves,
              R"(const %i: i64[1, 3] = [[0, 1, 2]]
                 %y = gather {axis=1} (%x, %i)
                 return "y" = %y)",
              R"(%y = reshape {shape=shape(2, 1, 3)} (%x)
                 return "y" = %y)");
  for (const char* indices : {"[2, 1, 0]", "[0, 2, 1]", "[0, 1, 1]"})
    expect_unchanged(simplify_moves, std::string("const %i: i64[3] = ") + indices + R"(
                 %y = gather {axis=1} (%x, %i)
                 return "y" = %y)");
}

TEST(SimplifyMoves, GatherOfOneRowManyTimesRepeatsIt) {
  expect_pass(simplify_moves,
              R"(const %i: i64[1, 4] = 1
                 %y = gather {axis=0} (%x, %i)
                 return "y" = %y)",
              R"(const %o: i64[] = 1
                 %g = gather {axis=0} (%x, %o)
                 %r = reshape {shape=shape(1, 1, 3)} (%g)
                 %y = expand {shape=shape(1, 4, 3)} (%r)
                 return "y" = %y)");
}

TEST(SimplifyMoves, ReshapesBehindAProductMoveBeforeIt) {
  expect_pass(simplify_moves,
              R"(const %w: f32[4, 5] = 0.5
                 const %b: f32[5] = [1, 2, 3, 4, 5]
                 %r = reshape {shape=shape(6, 4)} (%x)
                 %p = matmul {} (%r, %w)
                 %q = pointwise {function=add} (%p, %b)
                 %y = reshape {shape=shape(2, 3, 5)} (%q)
                 return "y" = %y)",
              R"(const %w: f32[4, 5] = 0.5
                 const %b: f32[5] = [1, 2, 3, 4, 5]
                 %r = reshape {shape=shape(6, 4)} (%x)
                 %s = reshape {shape=shape(2, 3, 4)} (%r)
                 %p = matmul {} (%s, %w)
                 %q = pointwise {function=add} (%p, %b)
                 return "y" = %q)",
              "%x: f32[2, 3, 4]");
  // The product in its own shape is an output too.
  expect_unchanged(simplify_moves, R"(const %w: f32[3, 5] = 0.5
                                      %p = matmul {} (%x, %w)
                                      %y = reshape {shape=shape(1, 2, 5)} (%p)
                                      return %y, %p)");
  // A last axis of no elements fits any others, and the operand's does not.
  expect_unchanged(simplify_moves, R"(const %w: f32[3, 0] = []
                                      %p = matmul {} (%x, %w)
                                      %y = reshape {shape=shape(5, 7, 0)} (%p)
                                      return "y" = %y)");
}

TEST(SimplifyMoves, PointwiseBroadcastsByItself) {
  expect_pass(simplify_moves,
              R"(const %c: f32[3] = [1, 2, 3]
                 %e = expand {shape=shape(n, 3)} (%c)
                 %y = pointwise {function=add} (%x, %e)
                 return "y" = %y)",
              R"(const %c: f32[3] = [1, 2, 3]
                 %y = pointwise {function=add} (%x, %c)
                 return "y" = %y)",
              "%x: f32[n, 3]");
  expect_unchanged(simplify_moves, R"(%e = expand {shape=shape(4, 2, 3)} (%x)
                                      %y = softmax {axis=2} (%e)
                                      return "y" = %y)");
}

TEST(SimplifyMoves, PointwiseOfExpandedOperandsComesFirst) {
  expect_pass(simplify_moves,
              R"(%e = expand {shape=shape(4, 2, 3)} (%x)
                 %y = pointwise {function=exp} (%e)
                 return "y" = %y)",
              R"(%y = pointwise {function=exp} (%x)
                 %e = expand {shape=shape(4, 2, 3)} (%y)
                 return "y" = %e)");
  // A mask that lets everything pass.
  expect_pass(simplify_moves,
              R"(const %t: bool[] = true
                 const %a: f32[] = 0
                 const %b: f32[] = -1
                 %e = expand {shape=shape(4, 1, 9)} (%t)
                 %s = pointwise {function=select} (%e, %a, %b)
                 %c = cast {to=f16} (%s)
                 return "y" = %c)",
              R"(const %t: bool[] = true
                 const %a: f32[] = 0
                 const %b: f32[] = -1
                 %s = pointwise {function=select} (%t, %a, %b)
                 %c = cast {to=f16} (%s)
                 %y = expand {shape=shape(4, 1, 9)} (%c)
                 return "y" = %y)");
}

TEST(SimplifyMoves, GatherOfAnExpandedIndexRepeatsItsRow) {
  expect_pass(simplify_moves,
              R"(const %i: i64[1, 1] = 1
                 %e = expand {shape=shape(n, 4)} (%i)
                 %y = gather {axis=0} (%x, %e)
                 return "y" = %y)",
              R"(const %o: i64[] = 1
                 %g = gather {axis=0} (%x, %o)
                 %r = reshape {shape=shape(1, 1, 3)} (%g)
                 %y = expand {shape=shape(n, 4, 3)} (%r)
                 return "y" = %y)",
              "%n: f32[n], %x: f32[2, 3]");
}

}  // namespace
}  // namespace camshaft::simplify_moves_test
