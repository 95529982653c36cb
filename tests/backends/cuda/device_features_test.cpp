// What compute capabilities can do, against NVIDIA's tables.
#include "backends/cuda/driver/device_features.h"

#include <gtest/gtest.h>

namespace camshaft::cuda::device_features_test {
namespace {

struct Expected {
  int capability;
  Generation generation;
  bool async_copies, tensor_copies, clusters, overlapping_launches, bf16, tf32, int8, fp8;
  int half_product_k;
  bool warpgroups, tensor_memory, own_instructions;
  int64_t shared_kilobytes;
};

// clang-format off
constexpr Expected all[] = {
    //                       copies        blocks        products                         family
    { 75, Generation::turing,    false, false, false, false, false, false, false, false,  8, false, false, false,  64},
    { 80, Generation::ampere,    true,  false, false, false, true,  true,  true,  false, 16, false, false, false, 163},
    { 86, Generation::ampere,    true,  false, false, false, true,  true,  true,  false, 16, false, false, false,  99},
    { 89, Generation::ada,       true,  false, false, false, true,  true,  true,  true,  16, false, false, false,  99},
    { 90, Generation::hopper,    true,  true,  true,  true,  true,  true,  true,  true,  16, true,  false, true,  227},
    {100, Generation::blackwell, true,  true,  true,  true,  true,  true,  true,  true,  16, false, true,  true,  227},
    {120, Generation::blackwell, true,  true,  true,  true,  true,  true,  true,  true,  16, false, false, true,   99},
};
// clang-format on

TEST(DeviceFeatures, OfEachCapability) {
  for (const Expected& e : all) {
    SCOPED_TRACE(e.capability);
    const DeviceFeatures f = features_of(e.capability);
    EXPECT_EQ(f.capability, e.capability);
    EXPECT_EQ(f.generation, e.generation);
    EXPECT_TRUE(f.is_supported);
    EXPECT_EQ(f.async_copies, e.async_copies);
    EXPECT_EQ(f.tensor_copies, e.tensor_copies);
    EXPECT_EQ(f.clusters, e.clusters);
    EXPECT_EQ(f.overlapping_launches, e.overlapping_launches);
    EXPECT_EQ(f.bf16_products, e.bf16);
    EXPECT_EQ(f.tf32_products, e.tf32);
    EXPECT_EQ(f.int8_products, e.int8);
    EXPECT_EQ(f.fp8_products, e.fp8);
    EXPECT_EQ(f.half_product_k, e.half_product_k);
    EXPECT_EQ(f.warpgroup_products, e.warpgroups);
    EXPECT_EQ(f.tensor_memory_products, e.tensor_memory);
    EXPECT_EQ(f.own_instructions, e.own_instructions);
    EXPECT_EQ(f.shared_bytes_per_block, e.shared_kilobytes * 1024);
    EXPECT_GT(f.rates.half, f.rates.f32);
    EXPECT_EQ(f.rates.tf32 > 0, e.tf32);
  }
}

TEST(DeviceFeatures, TooOldOnesHaveNone) {
  const DeviceFeatures f = features_of(70);
  EXPECT_EQ(f.capability, 70);
  EXPECT_FALSE(f.is_supported);
  EXPECT_EQ(f.generation, Generation::older);
  EXPECT_TRUE(features_of(oldest_capability).is_supported);
  EXPECT_FALSE(features_of(oldest_capability - 1).is_supported);
}

TEST(DeviceFeatures, UnknownOnesAreAsTheOneBeforeButOfUnknownSpeed) {
  EXPECT_EQ(features_of(88).shared_bytes_per_block, features_of(87).shared_bytes_per_block);
  const DeviceFeatures f = features_of(250);
  EXPECT_EQ(f.generation, Generation::blackwell);
  EXPECT_FALSE(f.warpgroup_products) << "of one family alone";
  EXPECT_EQ(f.rates.f32, 0);
  EXPECT_EQ(f.rates.half, 0);
}

}  // namespace
}  // namespace camshaft::cuda::device_features_test
