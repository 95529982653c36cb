#include "backends/cuda/passes.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace camshaft::cuda::passes_test {
namespace {

bool has_pass(const PassList& list, std::string_view name) {
  return std::any_of(list.begin(), list.end(), [&](const PassStep& step) {
    return std::any_of(step.passes.begin(), step.passes.end(), [&](const Pass& pass) { return pass.name == name; });
  });
}

TEST(CudaPasses, AreInOrder) {
  for (const DType storage : {DType::f32, DType::f16, DType::bf16})
    for (const ops::Rounding rounding : {ops::Rounding::none, ops::Rounding::tf32})
      for (const bool has_byte_products : {false, true})
        EXPECT_NO_THROW(check_order(passes(storage, rounding, has_byte_products)));
}

TEST(CudaPasses, StoreInHalvesWhereAsked) {
  EXPECT_FALSE(has_pass(passes(DType::f32, ops::Rounding::none, false).precision, "lower_precision"));
  EXPECT_TRUE(has_pass(passes(DType::bf16, ops::Rounding::none, false).precision, "lower_precision"));
  EXPECT_TRUE(has_pass(passes(DType::f32, ops::Rounding::tf32, false).precision, "allow_rounding"));
}

}  // namespace
}  // namespace camshaft::cuda::passes_test
