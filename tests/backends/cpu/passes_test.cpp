#include "backends/cpu/passes.h"

#include <gtest/gtest.h>

namespace camshaft::cpu::passes_test {
namespace {

TEST(CpuPasses, AreInOrder) {
  for (const ops::Rounding rounding : {ops::Rounding::none, ops::Rounding::bf16})
    EXPECT_NO_THROW(check_order(passes(rounding)));
}

TEST(CpuPasses, MarkWhatMayBeRounded) {
  EXPECT_TRUE(passes(ops::Rounding::none).precision.empty());
  ASSERT_EQ(passes(ops::Rounding::bf16).precision.size(), 1U);
  EXPECT_EQ(passes(ops::Rounding::bf16).precision[0].passes[0].name, "allow_rounding");
}

}  // namespace
}  // namespace camshaft::cpu::passes_test
