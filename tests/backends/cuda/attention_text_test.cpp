// Attention of every type and many sizes, through the compiler that its kernels are made for.
#include "backends/cuda/codegen/attention_text.h"

#include <gtest/gtest.h>

#include "backends/cuda/driver/compiler.h"

namespace camshaft::cuda::attention_text_test {
namespace {

TEST(AttentionText, Compiles) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  const auto compiles = [&](const AttentionForm& form, int capability) {
    EXPECT_FALSE(compiler.compile({"attention", attention_text(form), architecture(capability)}).empty());
  };
  compiles({DType::f16, 64, 64, {DType::f16}, true}, 75);
  compiles({DType::f16, 64, 64, {}, true}, 90);
  compiles({DType::f16, 64, 64, {}, true, true}, 90);
  compiles({DType::bf16, 120, 64, {DType::bf16}, true, true}, 90);
  compiles({DType::bf16, 256, 256, {DType::boolean}, true}, 90);
  compiles({DType::bf16, 40, 72, {DType::bf16, DType::boolean}, true}, 80);
  compiles({DType::f32, 64, 64, {DType::f32, DType::boolean}}, 90);
  compiles({DType::f32, 1, 3, {}}, 100);
  compiles({DType::bf16, 256, 128, {}}, 75);
  compiles({.dtype = DType::f32, .head_size = 64, .value_size = 64, .capped = true}, 90);
  compiles({.dtype = DType::f16,
            .head_size = 64,
            .value_size = 64,
            .matrix_instructions = true,
            .by_warpgroups = true,
            .capped = true},
           90);
}

TEST(AttentionText, TilesFit) {
  constexpr unsigned of_h200 = 227 * 1024, of_turing = 64 * 1024;
  for (int size = 1; size <= most_head_size; ++size)
    for (const DType dtype : {DType::f32, DType::f16})
      for (const int other : {1, size, most_head_size}) {
        const AttentionForm form{dtype, size, other, {}, dtype == DType::f16};
        const AttentionTiles tiles = attention_tiles(form);
        EXPECT_LE(tiles.wide.shared_bytes, of_h200) << size << ", " << other;
        EXPECT_LE(tiles.narrow.shared_bytes, of_h200) << size << ", " << other;
      }
  EXPECT_LE(attention_tiles({DType::f32, 128, 128}).narrow.shared_bytes, of_turing);
}

}  // namespace
}  // namespace camshaft::cuda::attention_text_test
