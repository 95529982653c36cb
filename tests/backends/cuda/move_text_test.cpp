// The kernels that move elements and look through windows, through the compiler that they are made for.
#include "backends/cuda/codegen/move_text.h"

#include <gtest/gtest.h>

#include "backends/cuda/codegen/gather_matmul_text.h"
#include "backends/cuda/codegen/generate_text.h"
#include "backends/cuda/codegen/sample_text.h"
#include "backends/cuda/codegen/window_text.h"
#include "backends/cuda/driver/compiler.h"

namespace camshaft::cuda::move_text_test {
namespace {

// Of the oldest architecture and Hopper's: what the texts use is in both, or fails in one.
void expect_to_compile(const std::vector<std::string>& texts) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  for (size_t i = 0; i < texts.size(); ++i) {
    SCOPED_TRACE(i);
    for (const int capability : i == 0 ? std::vector<int>{75, 90} : std::vector<int>{90})  // a second of compiling each
      EXPECT_FALSE(compiler.compile({"text", texts[i], architecture(capability)}).empty());
  }
}

TEST(MoveText, CopiesCompile) {
  expect_to_compile({copy_text(), concat_text()});
}

TEST(MoveText, GathersCompile) {
  expect_to_compile(
      {gather_text(GatherKind::rows), gather_text(GatherKind::elements), gather_text(GatherKind::slices)});
}

TEST(MoveText, ScattersCompile) {
  expect_to_compile({scatter_text()});
}

TEST(MoveText, PaddingCompiles) {
  expect_to_compile(
      {pad_text(1), pad_text(8), mapped_copy_text(2), mapped_copy_text(4), index_map_text(1), index_map_text(8)});
}

TEST(WindowText, PoolingCompiles) {
  PoolWindow small, large;
  small.kernel = small.stride = {1, 3, 3};
  large.kernel = {3, 7, 7};
  large.average = true;
  expect_to_compile({pool_text(small, DType::f32), pool_text(large, DType::f16), pool_text(small, DType::i8),
                     pool_text(large, DType::f64), pool_indices_text(small, DType::bf16)});
}

TEST(WindowText, ResizingCompiles) {
  expect_to_compile({resize_text(2, DType::f32), resize_text(1, DType::f16), resize_text(3, DType::bf16)});
}

TEST(SampleText, Compiles) {
  const ops::GridSample cubic{ops::SampleMode::cubic, ops::SamplePadding::reflection, false};
  expect_to_compile({grid_sample_text({}, 2, DType::f32, DType::f32),
                     grid_sample_text(cubic, 3, DType::f16, DType::f32), col2im_text(DType::f32)});
}

TEST(GatherMatMulText, Compiles) {
  expect_to_compile({gather_matmul_text(DType::f32, DType::f32), gather_matmul_text(DType::f16, DType::f16),
                     gather_matmul_text(DType::f16, DType::bf16), gather_matmul_text(DType::bf16, DType::f32)});
}

TEST(GenerateText, Compiles) {
  expect_to_compile({generate_text(DType::f32), generate_text(DType::boolean), generate_text(DType::bf16),
                     generate_text(DType::i64), generate_text(DType::u8)});
}

}  // namespace
}  // namespace camshaft::cuda::move_text_test
