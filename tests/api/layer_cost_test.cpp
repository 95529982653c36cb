#include "api/layer_cost.h"

#include <gtest/gtest.h>

namespace camshaft::api::layer_cost_test {
namespace {

constexpr DeviceLimits limits{.memory_bytes = 1e12, .f32_flops = 5e12, .half_flops = 1e14, .tf32_flops = 5e13};

ops::Cost product(DType dtype, double flops, double bytes) {
  return {
      .flops = flops, .dtype = dtype, .is_matrix = true, .constant_bytes = bytes / 2, .activation_bytes = bytes / 2};
}

TEST(LayerBound, OfMemoryAndOfArithmetic) {
  EXPECT_EQ(layer_bound(product(DType::f16, 1e9, 1e9), false, limits).what, "memory");
  EXPECT_DOUBLE_EQ(layer_bound(product(DType::f16, 1e9, 1e9), false, limits).seconds, 1e-3);
  const auto is = [](const LayerBound& bound, double seconds, std::string_view what) {
    EXPECT_DOUBLE_EQ(bound.seconds, seconds);
    EXPECT_EQ(bound.what, what);
  };
  is(layer_bound(product(DType::f16, 1e12, 1e6), false, limits), 1e-2, "f16");
  is(layer_bound(product(DType::bf16, 1e12, 1e6), false, limits), 1e-2, "bf16");
  is(layer_bound(product(DType::f32, 1e12, 1e6), false, limits), 0.2, "f32");
  is(layer_bound(product(DType::f32, 1e12, 1e6), true, limits), 2e-2, "tf32");
  ops::Cost depthwise = product(DType::f16, 1e12, 1e6);
  depthwise.is_matrix = false;
  is(layer_bound(depthwise, false, limits), 0.2, "f32");
}

TEST(LayerBound, WhatIsUnknownDecidesNothing) {
  EXPECT_EQ(layer_bound(product(DType::f16, 1e12, 1e6), false, {}).seconds, 0);
  EXPECT_EQ(layer_bound(product(DType::f16, 1e12, 1e9), false, {.memory_bytes = 1e12}).what, "memory");
  EXPECT_EQ(layer_bound(product(DType::f64, 1e15, 1e9), false, limits).what, "memory");
}

}  // namespace
}  // namespace camshaft::api::layer_cost_test
