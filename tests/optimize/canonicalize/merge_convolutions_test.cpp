#include "optimize/canonicalize/merge_convolutions.h"

#include "optimize/pass_test.h"

namespace camshaft::merge_convolutions_test {
namespace {

TEST(MergeConvolutions, ASmallKernelFindsItsPlaceInALargeOne) {
  expect_pass(merge_convolutions,
              R"(const %w: f32[1, 1, 3, 3] = [1, 2, 3, 4, 5, 6, 7, 8, 9]
                 const %v: f32[1, 1, 1, 1] = [10]
                 const %b: f32[1] = [1]
                 const %c: f32[1] = [2]
                 %p = conv {strides=[2, 2], pads=shape(1, 1, 1, 1), dilations=[1, 1]} (%x, %w, %b)
                 %q = conv {strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%x, %v, %c)
                 %y = pointwise {function=add} (%q, %p)
                 return "y" = %y)",
              R"(const %w: f32[1, 1, 3, 3] = [1, 2, 3, 4, 15, 6, 7, 8, 9]
                 const %b: f32[1] = [3]
                 %y = conv {strides=[2, 2], pads=shape(1, 1, 1, 1), dilations=[1, 1]} (%x, %w, %b)
                 return "y" = %y)",
              "%x: f32[n, 1, 9, 9]");
}

TEST(MergeConvolutions, Differences) {
  expect_pass(merge_convolutions,
              R"(const %w: f32[1, 1, 1] = [10]
                 const %v: f32[1, 1, 3] = [1, 2, 3]
                 const %c: f32[1] = [2]
                 %p = conv {strides=[1], pads=shape(0, 0), dilations=[1]} (%x, %w)
                 %q = conv {strides=[1], pads=shape(2, 0), dilations=[1]} (%x, %v, %c)
                 %y = pointwise {function=sub} (%p, %q)
                 return "y" = %y)",
              R"(const %w: f32[1, 1, 3] = [-1, -2, 7]
                 const %b: f32[1] = [-2]
                 %y = conv {strides=[1], pads=shape(2, 0), dilations=[1]} (%x, %w, %b)
                 return "y" = %y)",
              "%x: f32[n, 1, 9]");
}

TEST(MergeConvolutions, KernelsWithDilations) {
  expect_pass(merge_convolutions,
              R"(const %w: f32[1, 1, 3] = [1, 2, 3]
                 const %v: f32[1, 1, 2] = [10, 20]
                 %p = conv {strides=[1], pads=shape(4, 4), dilations=[4]} (%x, %w)
                 %q = conv {strides=[1], pads=shape(4, 0), dilations=[4]} (%x, %v)
                 %y = pointwise {function=add} (%p, %q)
                 return "y" = %y)",
              R"(const %w: f32[1, 1, 3] = [11, 22, 3]
                 %y = conv {strides=[1], pads=shape(4, 4), dilations=[4]} (%x, %w)
                 return "y" = %y)",
              "%x: f32[n, 1, 9]");
}

// What batch normalisation makes of the value itself, in groups.
TEST(MergeConvolutions, ChannelsThatAreScaled) {
  expect_pass(merge_convolutions,
              R"(const %w: f32[4, 2, 1] = [1, 1, 1, 1, 1, 1, 1, 1]
                 const %s: f32[4, 1] = [10, 20, 30, 40]
                 const %t: f32[4, 1] = [1, 2, 3, 4]
                 %p = conv {strides=[1], pads=shape(0, 0), dilations=[1], groups=2} (%x, %w)
                 %q = pointwise {function=mul} (%x, %s)
                 %r = pointwise {function=add} (%q, %t)
                 %y = pointwise {function=add} (%p, %r)
                 return "y" = %y)",
              R"(const %w: f32[4, 2, 1] = [11, 1, 1, 21, 31, 1, 1, 41]
                 const %b: f32[4] = [1, 2, 3, 4]
                 %y = conv {strides=[1], pads=shape(0, 0), dilations=[1], groups=2} (%x, %w, %b)
                 return "y" = %y)",
              "%x: f32[n, 4, 9]");
}

TEST(MergeConvolutions, ThreeBranches) {
  expect_pass(merge_convolutions,
              R"(const %w: f32[1, 1, 3] = [1, 2, 3]
                 const %v: f32[1, 1, 1] = [10]
                 const %s: f32[1, 1] = [100]
                 const %two: f32[] = 2
                 %q = pointwise {function=mul} (%x, %s)
                 %p = conv {strides=[1], pads=shape(0, 0), dilations=[1]} (%x, %v)
                 %r = pointwise {function=add} (%q, %p)
                 %t = conv {strides=[1], pads=shape(1, 1), dilations=[1]} (%x, %w)
                 %u = pointwise {function=add} (%r, %t)
                 %y = pointwise {function=pow} (%u, %two)
                 return "y" = %y)",
              R"(const %w: f32[1, 1, 3] = [1, 112, 3]
                 const %two: f32[] = 2
                 %u = conv {strides=[1], pads=shape(1, 1), dilations=[1]} (%x, %w)
                 %y = pointwise {function=pow} (%u, %two)
                 return "y" = %y)",
              "%x: f32[n, 1, 9]");
}

constexpr const char* others[] = {
    // Kernels that overlap in part.
    R"(%p = conv {strides=[1], pads=shape(2, 0), dilations=[1]} (%x, %w)
       %q = conv {strides=[1], pads=shape(1, 1), dilations=[1]} (%x, %v)
       %y = pointwise {function=add} (%p, %q)
       return "y" = %y)",
    // Other pixels.
    R"(%p = conv {strides=[1], pads=shape(2, 2), dilations=[2]} (%x, %w)
       %q = conv {strides=[1], pads=shape(1, 1), dilations=[1]} (%x, %v)
       %y = pointwise {function=add} (%p, %q)
       return "y" = %y)",
    // Another reads a summand.
    R"(%p = conv {strides=[1], pads=shape(1, 1), dilations=[1]} (%x, %w)
       %q = conv {strides=[1], pads=shape(1, 1), dilations=[1]} (%x, %v)
       %y = pointwise {function=add} (%p, %q)
       return "y" = %y, "q" = %q)",
    // The same twice.
    R"(%p = conv {strides=[1], pads=shape(1, 1), dilations=[1]} (%x, %w)
       %y = pointwise {function=add} (%p, %p)
       return "y" = %y)",
    // The value itself.
    R"(%p = conv {strides=[1], pads=shape(1, 1), dilations=[1]} (%x, %w)
       %y = pointwise {function=add} (%p, %x)
       return "y" = %y)",
    // Another value.
    R"(%z = pointwise {function=exp} (%x)
       %p = conv {strides=[1], pads=shape(1, 1), dilations=[1]} (%x, %w)
       %q = conv {strides=[1], pads=shape(1, 1), dilations=[1]} (%z, %v)
       %y = pointwise {function=add} (%p, %q)
       return "y" = %y)",
};

TEST(MergeConvolutions, OthersStay) {
  for (const char* body : others)
    expect_unchanged(merge_convolutions,
                     std::string("const %w: f32[1, 1, 3] = [1, 2, 3]\nconst %v: f32[1, 1, 3] = [1, 2, 3]\n") + body,
                     "%x: f32[n, 1, 9]");
}

// 40,000 + 40,000 is no number of 16 bits.
TEST(MergeConvolutions, SumsThatTheTypeCannotHoldStay) {
  expect_unchanged(merge_convolutions,
                   R"(const %w: f16[1, 1, 1] = [40000]
                      %p = conv {strides=[1], pads=shape(0, 0), dilations=[1]} (%x, %w)
                      %q = conv {strides=[1], pads=shape(0, 0), dilations=[1]} (%x, %w)
                      %y = pointwise {function=add} (%p, %q)
                      return "y" = %y)",
                   "%x: f16[n, 1, 9]");
}

TEST(MergeConvolutions, OneOutputForEachOfTwoDoesNotBroadcast) {
  expect_unchanged(merge_convolutions,
                   R"(const %w: f32[1, 1, 1] = [4]
                      const %v: f32[2, 1, 1] = [4, 5]
                      %p = conv {strides=[1], pads=shape(0, 0), dilations=[1]} (%x, %w)
                      %q = conv {strides=[1], pads=shape(0, 0), dilations=[1]} (%x, %v)
                      %y = pointwise {function=add} (%p, %q)
                      return "y" = %y)",
                   "%x: f32[n, 1, 9]");
}

}  // namespace
}  // namespace camshaft::merge_convolutions_test
