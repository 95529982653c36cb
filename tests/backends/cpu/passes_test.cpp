#include "backends/cpu/passes.h"

#include <gtest/gtest.h>

#include "backends/cpu/kernels/gemm/matrix_unit.h"

namespace camshaft::cpu::passes_test {
namespace {

TEST(CpuPasses, AreInOrder) {
  for (const ops::Rounding rounding : {ops::Rounding::none, ops::Rounding::bf16})
    EXPECT_NO_THROW(check_order(passes(rounding)));
}

TEST(CpuPasses, MarkWhatMayBeRounded) {
  EXPECT_TRUE(passes(ops::Rounding::none).precision.empty());
  set_matrix_unit_for_test(MatrixUnit::none);
  ASSERT_EQ(passes(ops::Rounding::bf16).precision.size(), 1U);
  EXPECT_EQ(passes(ops::Rounding::bf16).precision[0].passes[0].name, "allow_rounding");
  set_matrix_unit_for_test(MatrixUnit::portable);
  ASSERT_EQ(passes(ops::Rounding::bf16).precision.size(), 2U);
  EXPECT_EQ(passes(ops::Rounding::bf16).precision[1].passes[0].name, "store_rounded");
  EXPECT_NO_THROW(check_order(passes(ops::Rounding::bf16)));
  reset_matrix_unit_for_test();
}

}  // namespace
}  // namespace camshaft::cpu::passes_test
