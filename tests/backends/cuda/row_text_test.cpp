// Softmax and normalisations of every type, through the compiler that their kernels are made for.
#include "backends/cuda/codegen/row_text.h"

#include <gtest/gtest.h>

#include "backends/cuda/driver/compiler.h"
#include "backends/cuda/tactics/row_launch.h"

namespace camshaft::cuda::row_text_test {
namespace {

constexpr DType types[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

TEST(RowText, Compiles) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  const auto compiles = [&](const RowText& text, int capability) {
    EXPECT_FALSE(compiler.compile({"rows", text.text, architecture(capability)}).empty());
  };
  for (const DType dtype : types) {
    compiles(softmax_text(dtype == DType::f64, dtype), 90);
    compiles(normalize_text(dtype != DType::bf16, dtype == DType::f16, dtype, dtype, DType::f32, dtype != DType::f32),
             90);
  }
  compiles(group_columns_text(DType::f16, DType::f16, DType::f32, true), 90);
  compiles(group_columns_text(DType::f64, DType::f64, DType::f64, false), 80);
  for (const int capability : {75, 100}) {
    compiles(softmax_text(true, DType::f16), capability);
    compiles(normalize_text(true, true, DType::f32, DType::f32, DType::f32, true, 768), capability);
  }
}

TEST(RowLaunch, EveryRowHasItsThreads) {
  for (const int64_t rows : {1, 2, 7, 100, 5000, 1000000})
    for (const int64_t units : {1, 2, 3, 31, 32, 33, 96, 197, 1000, 4096, 100000}) {
      const RowLaunch launch = row_launch(rows, units, 8, 512, 132);
      const unsigned threads = launch.size.threads, lanes = launch.lanes;
      SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(units));
      EXPECT_EQ(lanes & (lanes - 1), 0U);
      EXPECT_EQ(threads & (threads - 1), 0U);
      EXPECT_GE(threads, 32U);
      EXPECT_LE(threads, 512U);
      EXPECT_TRUE(lanes <= 32 || threads == lanes);
      const int64_t covered = int64_t{launch.size.blocks} * (threads / lanes);
      EXPECT_GE(covered, rows);
      EXPECT_LT(covered - rows, threads / lanes);
      EXPECT_TRUE(lanes * 8 >= units || lanes == 512) << "in registers as long as a block can";
    }
}

}  // namespace
}  // namespace camshaft::cuda::row_text_test
