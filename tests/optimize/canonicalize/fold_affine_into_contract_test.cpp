#include "optimize/canonicalize/fold_affine_into_contract.h"

#include "optimize/pass_test.h"

namespace camshaft::fold_affine_into_contract_test {
namespace {

TEST(FoldAffineIntoContract, BatchNormalisation) {
  expect_pass(fold_affine_into_contract,
              R"(const %w: f32[2, 1, 1, 1] = [3, 5]
                 const %b: f32[2] = [1, 2]
                 const %scale: f32[2, 1, 1] = [10, 100]
                 const %shift: f32[1, 2, 1, 1] = [7, 8]
                 %p = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1]} (%x, %w, %b)
                 %q = pointwise {function=mul} (%p, %scale)
                 %r = pointwise {function=add} (%shift, %q)
                 %y = pointwise {function=exp} (%r)
                 return "y" = %y)",
              R"(const %w: f32[2, 1, 1, 1] = [30, 500]
                 const %b: f32[2] = [17, 208]
                 %r = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1]} (%x, %w, %b)
                 %y = pointwise {function=exp} (%r)
                 return "y" = %y)",
              "%x: f32[n, 1, h, h]");
}

TEST(FoldAffineIntoContract, NotIntoWeightsWithoutElements) {
  expect_unchanged(fold_affine_into_contract,
                   R"(const %w: f32[0, 35184372088832] = []
                      const %half: f32[] = 0.5
                      %p = matmul (%x, %w)
                      %y = pointwise {function=mul} (%p, %half)
                      return "y" = %y)",
                   "%x: f32[0, 0]");
}

// f16 would lose what they make of the weights.
TEST(FoldAffineIntoContract, SmallFactorsStayBehindTheSums) {
  const std::string model = R"(const %s: f32[2, 1] = [0.00001, 0.00002]
                               %p = conv {strides=[1], pads=shape(0, 0), dilations=[1]} (%x, %w)
                               %y = pointwise {function=mul} (%p, %s)
                               return "y" = %y)";
  expect_unchanged(fold_affine_into_contract, "const %w: f32[2, 1, 1] = [3, 5]\n" + model, "%x: f32[n, 1, h]");
  // Weights that are small already lose no more.
  expect_pass(fold_affine_into_contract, "const %w: f32[2, 1, 1] = [0.0001220703125, 0.000244140625]\n" + model,
              R"(const %w: f32[2, 1, 1] = [0.000000001220703125, 0.0000000048828125]
                 %y = conv {strides=[1], pads=shape(0, 0), dilations=[1]} (%x, %w)
                 return "y" = %y)",
              "%x: f32[n, 1, h]");
}

TEST(FoldAffineIntoContract, AnAddBecomesTheBias) {
  expect_pass(fold_affine_into_contract,
              R"(const %w: f32[2, 1, 1] = [3, 5]
                 const %shift: f32[2, 1] = [7, 8]
                 %p = conv {strides=[1], pads=shape(0, 0), dilations=[1]} (%x, %w)
                 %y = pointwise {function=sub} (%p, %shift)
                 return "y" = %y)",
              R"(const %w: f32[2, 1, 1] = [3, 5]
                 const %b: f32[2] = [-7, -8]
                 %y = conv {strides=[1], pads=shape(0, 0), dilations=[1]} (%x, %w, %b)
                 return "y" = %y)",
              "%x: f32[n, 1, h]");
}

TEST(FoldAffineIntoContract, GroupsAndTransposedConvolutions) {
  // Two groups of two inputs and three outputs each.
  expect_pass(fold_affine_into_contract,
              R"(const %w: f32[4, 3, 1] = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
                 const %s: f32[6, 1] = [1, 2, 3, 4, 5, 6]
                 %p = conv_transpose {strides=[1], pads=shape(0, 0), dilations=[1], output_padding=shape(0), groups=2} (%x, %w)
                 %y = pointwise {function=mul} (%p, %s)
                 return "y" = %y)",
              R"(const %w: f32[4, 3, 1] = [1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6]
                 %y = conv_transpose {strides=[1], pads=shape(0, 0), dilations=[1], output_padding=shape(0), groups=2} (%x, %w)
                 return "y" = %y)",
              "%x: f32[1, 4, 9]");
}

TEST(FoldAffineIntoContract, BeforeAConvolution) {
  const std::string before = R"(const %w: f32[1, 2, 1, 2] = [1, 2, 3, 4]
                                const %m: f32[2, 1, 1] = [10, 20]
                                const %d: f32[2, 1, 1] = [0.5, 0.25]
                                %p = pointwise {function=sub} (%x, %m)
                                %q = pointwise {function=div} (%p, %d)
                                )";
  expect_pass(fold_affine_into_contract,
              before + R"(%y = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%q, %w)
                          return "y" = %y)",
              R"(const %w: f32[1, 2, 1, 2] = [2, 4, 12, 16]
                 const %b: f32[1] = [-620]
                 %y = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%x, %w, %b)
                 return "y" = %y)",
              "%x: f32[1, 2, 4, 4]");
  // Padding is zero after the subtraction. The factor alone would fold, but it costs nothing beside the subtraction.
  const std::string padded = R"(%y = conv {strides=[1, 1], pads=shape(0, 1, 0, 0), dilations=[1, 1]} (%q, %w)
                                return "y" = %y)";
  expect_unchanged(fold_affine_into_contract, before + padded, "%x: f32[1, 2, 4, 4]");
  expect_pass(fold_affine_into_contract,
              R"(const %w: f32[1, 2, 1, 2] = [1, 2, 3, 4]
                 const %d: f32[2, 1, 1] = [0.5, 0.25]
                 %q = pointwise {function=div} (%x, %d)
                 )" +
                  padded,
              R"(const %w: f32[1, 2, 1, 2] = [2, 4, 12, 16]
                 %y = conv {strides=[1, 1], pads=shape(0, 1, 0, 0), dilations=[1, 1]} (%x, %w)
                 return "y" = %y)",
              "%x: f32[1, 2, 4, 4]");
}

TEST(FoldAffineIntoContract, FactorsAroundAMatrixProduct) {
  expect_pass(fold_affine_into_contract,
              R"(const %w: f32[2, 3] = [1, 2, 3, 4, 5, 6]
                 const %rows: f32[2] = [10, 100]
                 const %columns: f32[3] = [1, 2, 3]
                 const %half: f32[] = 0.5
                 %p = pointwise {function=mul} (%x, %rows)
                 %q = matmul {} (%p, %w)
                 %r = pointwise {function=mul} (%q, %columns)
                 %s = pointwise {function=mul} (%r, %half)
                 %y = pointwise {function=add} (%s, %columns)
                 return "y" = %y)",
              R"(const %w: f32[2, 3] = [5, 20, 45, 200, 500, 900]
                 const %columns: f32[3] = [1, 2, 3]
                 %q = matmul {} (%x, %w)
                 %y = pointwise {function=add} (%q, %columns)
                 return "y" = %y)",
              "%x: f32[n, 2]");
}

TEST(FoldAffineIntoContract, ScaleOfAttention) {
  expect_pass(fold_affine_into_contract,
              R"(const %half: f32[] = 0.5
                 const %quarter: f32[1] = 0.25
                 %p = pointwise {function=mul} (%x, %half)
                 %q = pointwise {function=mul} (%quarter, %k)
                 %y = matmul {transpose_b=true} (%p, %q)
                 return "y" = %y)",
              R"(const %c: f32[] = 0.125
                 %m = matmul {transpose_b=true} (%x, %k)
                 %y = pointwise {function=mul} (%m, %c)
                 return "y" = %y)",
              "%x: f32[n, 8], %k: f32[m, 8]");
}

// PyTorch's products take three axes: reshapes are between them and the factor.
TEST(FoldAffineIntoContract, ScaleOfAttentionBeforeMoves) {
  expect_pass(fold_affine_into_contract,
              R"(const %half: f32[] = 0.5
                 %p = pointwise {function=mul} (%x, %half)
                 %a = reshape {shape=shape(6, 4, 8)} (%p)
                 %t = transpose {permutation=[0, 1, 3, 2]} (%k)
                 %b = reshape {shape=shape(6, 8, 5)} (%t)
                 %y = matmul {} (%a, %b)
                 return "y" = %y)",
              R"(const %c: f32[] = 0.5
                 %t = transpose {permutation=[0, 1, 3, 2]} (%k)
                 %b = reshape {shape=shape(6, 8, 5)} (%t)
                 %a = reshape {shape=shape(6, 4, 8)} (%x)
                 %m = matmul {} (%a, %b)
                 %y = pointwise {function=mul} (%m, %c)
                 return "y" = %y)",
              "%x: f32[2, 3, 4, 8], %k: f32[2, 3, 5, 8]");
  expect_pass(fold_affine_into_contract,
              R"(const %half: f32[] = 0.5
                 %p = pointwise {function=mul} (%k, %half)
                 %t = transpose {permutation=[1, 0]} (%p)
                 %y = matmul {} (%x, %t)
                 return "y" = %y)",
              R"(const %c: f32[] = 0.5
                 %t = transpose {permutation=[1, 0]} (%k)
                 %m = matmul {} (%x, %t)
                 %y = pointwise {function=mul} (%m, %c)
                 return "y" = %y)",
              "%x: f32[n, 8], %k: f32[m, 8]");
  // Read by another product, too.
  expect_unchanged(fold_affine_into_contract,
                   R"(const %half: f32[] = 0.5
                      %p = pointwise {function=mul} (%k, %half)
                      %t = transpose {permutation=[1, 0]} (%p)
                      %y = matmul {} (%x, %t)
                      %z = matmul {} (%t, %x)
                      return "y" = %y, "z" = %z)",
                   "%x: f32[n, 8], %k: f32[n, 8]");
}

TEST(FoldAffineIntoContract, WhatIsUsedElsewhereStays) {
  const char* body = R"(const %w: f32[2, 1, 1] = [3, 5]
                        const %s: f32[] = 7
                        %p = conv {strides=[1], pads=shape(0, 0), dilations=[1]} (%x, %w)
                        %y = pointwise {function=mul} (%p, %s)
                        return "y" = %y, "p" = %p)";
  expect_unchanged(fold_affine_into_contract, body, "%x: f32[n, 1, h]");
  expect_unchanged(fold_affine_into_contract, R"(const %w: f32[2, 1, 1] = [3, 5]
                                                 const %spatial: f32[4] = [1, 2, 3, 4]
                                                 %p = conv {strides=[1], pads=shape(0, 0), dilations=[1]} (%x, %w)
                                                 %y = pointwise {function=mul} (%p, %spatial)
                                                 return "y" = %y)",
                   "%x: f32[n, 1, 4]");
}

}  // namespace
}  // namespace camshaft::fold_affine_into_contract_test
