// Attention over caches in blocks of every type, through the compiler that its kernels are made for.
#include "backends/cuda/codegen/paged_text.h"

#include <gtest/gtest.h>

#include "backends/cuda/codegen/attention_text.h"
#include "backends/cuda/driver/compiler.h"

namespace camshaft::cuda::paged_text_test {
namespace {

TEST(PagedText, Compiles) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  const auto compiles = [&](const PagedForm& form, int capability) {
    std::vector<PagedTileSize> tiles = narrow_paged_tiles(form);
    if (form.matrix_instructions) tiles.push_back(wide_paged_tile(form));
    for (const PagedTileSize& tile : tiles)
      EXPECT_FALSE(
          compiler.compile({"paged_attention", paged_attention_text(form, tile), architecture(capability)}).empty());
    if (form.update.rotated > 0) {
      const std::string text = paged_step_text(form, tiles[0]);
      EXPECT_FALSE(compiler.compile({"paged_attention", text, architecture(capability)}).empty());
    }
  };
  const auto form_of = [](DType query, DType cache, int size) {
    PagedForm form{.query = query, .keys = cache, .values = cache, .head_size = size, .value_size = size};
    form.matrix_instructions = query != DType::f32;
    form.key_scales = form.value_scales = cache == DType::i8;
    form.tables_are_early = size != 20;
    if (query == cache && form.matrix_instructions)
      form.update = {size == 64 ? DType::f32 : query, size == 256, size / 2};
    return form;
  };
  compiles(form_of(DType::f16, DType::f16, 64), 90);
  compiles(form_of(DType::f16, DType::f16, 64), 75);
  compiles(form_of(DType::f16, DType::i8, 128), 90);
  compiles(form_of(DType::bf16, DType::bf16, 256), 100);
  compiles(form_of(DType::bf16, DType::f8e4m3, 20), 80);
  compiles(form_of(DType::f32, DType::f32, 64), 90);
}

TEST(PagedText, TilesFit) {
  constexpr unsigned of_h200 = 227 * 1024;
  for (int size = 1; size <= most_head_size; ++size)
    for (const bool matrix : {false, true})
      for (const int other : {1, size, most_head_size}) {
        const PagedForm form{.head_size = size, .value_size = other, .matrix_instructions = matrix};
        const PagedTileSize best = narrow_paged_tiles(form).front();
        EXPECT_LE(best.shared_bytes + best.step_bytes(form) + best.cluster_bytes(other, 16), of_h200)
            << size << ", " << other;
        EXPECT_LE(wide_paged_tile(form).shared_bytes, of_h200) << size << ", " << other;
      }
}

}  // namespace
}  // namespace camshaft::cuda::paged_text_test
