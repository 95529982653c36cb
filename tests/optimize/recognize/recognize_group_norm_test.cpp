#include "optimize/recognize/recognize_group_norm.h"

#include "optimize/pass_test.h"

namespace camshaft::recognize_group_norm_test {
namespace {

const std::string spelled_out = R"(const %one: f32[2] = 1
                                   const %zero: f32[2] = 0
                                   %r = reshape {shape=shape(n, 2, 32)} (%x)
                                   %i = group_norm {groups=2} (%r, %one, %zero)
                                   %b = reshape {shape=shape(n, 4, 4, 4)} (%i)
                                   )";

TEST(RecognizeGroupNorm, AsExportersSpellIt) {
  expect_pass(recognize_group_norm, spelled_out + R"(const %s: f32[4, 1, 1] = [1, 2, 3, 4]
                               const %t: f32[1, 4, 1, 1] = [5, 6, 7, 8]
                               %m = pointwise {function=mul} (%b, %s)
                               %y = pointwise {function=add} (%t, %m)
                               return "y" = %y)",
              R"(const %s: f32[4] = [1, 2, 3, 4]
                 const %t: f32[4] = [5, 6, 7, 8]
                 %y = group_norm {groups=2} (%x, %s, %t)
                 return "y" = %y)",
              "%x: f32[n, 4, 4, 4]");
}

TEST(RecognizeGroupNorm, ScaleOfAnotherAxisStays) {
  expect_pass(recognize_group_norm, spelled_out + R"(const %s: f32[4] = [1, 2, 3, 4]
                               %m = pointwise {function=mul} (%b, %s)
                               return "m" = %m)",
              R"(const %s: f32[4] = [1, 2, 3, 4]
                 %b = group_norm {groups=2} (%x)
                 %m = pointwise {function=mul} (%b, %s)
                 return "m" = %m)",
              "%x: f32[n, 4, 4, 4]");
}

TEST(RecognizeGroupNorm, OtherShapesStay) {
  expect_unchanged(recognize_group_norm,
                   R"(%r = reshape {shape=shape(n, 2, 32)} (%x)
                      %i = group_norm {groups=2} (%r)
                      %b = reshape {shape=shape(n, 64)} (%i)
                      return "b" = %b)",
                   "%x: f32[n, 4, 4, 4]");
}

}  // namespace
}  // namespace camshaft::recognize_group_norm_test
