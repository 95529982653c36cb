#include "optimize/precision/move_quantization.h"

#include "optimize/pass_test.h"

namespace camshaft::move_quantization_test {
namespace {

TEST(MoveQuantization, StepsGoThroughMovesAndMaxima) {
  expect_pass(move_quantization, R"(const %s: f32[] = 0.5
    const %z: u8[] = 3
    %d = dequantize (%x, %s, %z)
    %t = transpose {permutation=[0, 2, 3, 1]} (%d)
    %p = pool {kind=max, kernel=[2, 2], strides=[1, 1], pads=shape(1, 0, 0, 0), dilations=[1, 1], channels_last=true} (%t)
    return "y" = %p)",
              R"(const %s: f32[] = 0.5
    const %z: u8[] = 3
    %t = transpose {permutation=[0, 2, 3, 1]} (%x)
    %p = pool {kind=max, kernel=[2, 2], strides=[1, 1], pads=shape(1, 0, 0, 0), dilations=[1, 1], channels_last=true} (%t)
    %y = dequantize (%p, %s, %z)
    return "y" = %y)",
              "%x: u8[1, 2, 4, 4]");
}

TEST(MoveQuantization, AQuantizeOfTheSameScaleIsNothing) {
  expect_pass(move_quantization, R"(const %s: f32[] = 0.5
    const %same: f32[] = 0.5
    const %z: i8[] = -3
    %d = dequantize (%x, %s, %z)
    %r = reshape {shape=shape(6)} (%d)
    %y = quantize {dtype=i8} (%r, %same, %z)
    return "y" = %y)",
              R"(%y = reshape {shape=shape(6)} (%x)
    return "y" = %y)",
              "%x: i8[2, 3]");
}

TEST(MoveQuantization, OperandsOfOtherScalesAreQuantizedOneByOne) {
  expect_pass(move_quantization, R"(const %s: f32[] = 0.5
    const %t: f32[] = 0.25
    %a = dequantize (%x, %s)
    %b = dequantize (%x, %t)
    %c = concat {axis=0} (%a, %b, %w)
    %y = quantize {dtype=u8} (%c, %s)
    return "y" = %y)",
              R"(const %s: f32[] = 0.5
    const %t: f32[] = 0.25
    %b = dequantize (%x, %t)
    %e = quantize {dtype=u8} (%b, %s)
    %f = quantize {dtype=u8} (%w, %s)
    %y = concat {axis=0} (%x, %e, %f)
    return "y" = %y)",
              "%x: u8[2, 3], %w: f32[2, 3]");
}

TEST(MoveQuantization, RowsAreGatheredWithTheirScales) {
  expect_pass(move_quantization, R"(const %w: i8[2, 3] = [1, 2, 3, 4, 5, 6]
    const %s: f32[2] = [0.5, 0.25]
    const %z: i8[2] = [1, -1]
    %d = dequantize {axis=0} (%w, %s, %z)
    %y = gather {axis=0} (%d, %x)
    return "y" = %y)",
              R"(const %w: i8[2, 3] = [1, 2, 3, 4, 5, 6]
    const %s: f32[2] = [0.5, 0.25]
    const %z: i8[2] = [1, -1]
    %g = gather {axis=0} (%w, %x)
    %real = cast {to=f32} (%g)
    %gz = gather {axis=0} (%z, %x)
    %rz = reshape {shape=shape(4, 5, 1)} (%gz)
    %zeros = cast {to=f32} (%rz)
    %from = pointwise {function=sub} (%real, %zeros)
    %gs = gather {axis=0} (%s, %x)
    %rs = reshape {shape=shape(4, 5, 1)} (%gs)
    %y = pointwise {function=mul} (%from, %rs)
    return "y" = %y)",
              "%x: i64[4, 5]");
  // Columns with scales of their own, or a table that is computed.
  expect_unchanged(move_quantization, R"(const %w: i8[2, 3] = [1, 2, 3, 4, 5, 6]
    const %s: f32[3] = [0.5, 0.25, 1]
    %d = dequantize {axis=1} (%w, %s)
    %y = gather {axis=0} (%d, %x)
    return "y" = %y)",
                   "%x: i64[4, 5]");
  expect_unchanged(move_quantization, R"(const %s: f32[2] = [0.5, 0.25]
    %d = dequantize {axis=0} (%w, %s)
    %y = gather {axis=0} (%d, %x)
    return "y" = %y)",
                   "%x: i64[4, 5], %w: i8[2, 3]");
}

TEST(MoveQuantization, WhatOthersReadStays) {
  expect_unchanged(move_quantization, R"(const %s: f32[] = 0.5
    %t = transpose {permutation=[1, 0]} (%x)
    %y = quantize {dtype=u8} (%t, %s)
    return "y" = %y, "t" = %t)");
}

TEST(MoveQuantization, OthersStay) {
  // A scale for each index, one that is negative, steps of other types, an average, a pad's own number.
  for (const char* body : {R"(const %s: f32[3] = [0.5, 1, 2]
    %d = dequantize {axis=1} (%x, %s)
    %y = transpose {permutation=[1, 0]} (%d)
    return "y" = %y)",
                           R"(const %s: f32[] = -0.5
    %d = dequantize (%x, %s)
    %y = transpose {permutation=[1, 0]} (%d)
    return "y" = %y)",
                           R"(const %s: f32[] = 0.5
    const %number: f32[] = 1
    %d = dequantize (%x, %s)
    %y = pad {pads=shape(1, 0, 0, 0)} (%d, %number)
    return "y" = %y)",
                           R"(const %s: f32[] = 0.5
    const %z: u8[] = 1
    const %other: u8[] = 2
    %d = dequantize (%x, %s, %z)
    %y = quantize {dtype=u8} (%d, %s, %other)
    return "y" = %y)"})
    expect_unchanged(move_quantization, body, "%x: u8[2, 3]");
}

}  // namespace
}  // namespace camshaft::move_quantization_test
