#include "backends/cpu/kernels/tile_traits.h"

#include <gtest/gtest.h>

#include <string>

#include "backends/cpu/device.h"
#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/gemm/gemm.h"

namespace camshaft::cpu::tile_traits_test {
namespace {

// Sums of rows x vectors, `operands` registers a vector of width and `others`.
void expect_fits(const TileShape& shape, int registers, int operands, int others, const char* what) {
  for (int v = 1; v <= shape.vectors; ++v) {
    EXPECT_GE(shape.rows[v - 1], 1) << what << ", " << v << " wide";
    EXPECT_LE(shape.rows[v - 1] * v + operands * v + others, registers) << what << ", " << v << " wide";
  }
}

TEST(TileTraits, TilesFitTheRegisters) {
  for (const TileTraits& row : kTargets) {
    SCOPED_TRACE(row.isa);
    const RegisterTiles& tiles = row.tiles;
    expect_fits(tiles.product, tiles.registers, 1, 1, "product");
    expect_fits(row.even_product, tiles.registers, 1, 1, "product of even rows");
    expect_fits(tiles.attention, tiles.registers, 1, 1, "attention");
    expect_fits(tiles.stem_conv, tiles.registers, 1, 1, "stem convolution");
    expect_fits(tiles.byte_product, tiles.registers, 1, 1, "product of bytes");
    // One width for panels of floats and of bytes: packed weights have the layout of either.
    EXPECT_EQ(tiles.byte_product.vectors, tiles.product.vectors);
    for (int i = 0; i < 4; ++i) {
      EXPECT_LE((i + 1) * (tiles.dot_rows[i] + 1) + 1, tiles.registers) << i + 1 << " columns of dot products";
      EXPECT_LE((i + 1) * tiles.unpacked_vectors[i] + 2, tiles.registers) << i + 1 << " rows of a unpacked product";
    }
    EXPECT_LE(4 * (tiles.recurrent_rows + 1) + 1, tiles.registers);
    EXPECT_LE(row.depthwise_pixels + 5 + 1, tiles.registers);
  }
}

TEST(TileTraits, TheRowIsThatOfTheTargetThatRuns) {
  for_each_target([] {
    const int64_t available = hwy::SupportedTargets() & HWY_TARGETS;
    const TileTraits& row = tile_traits();
    EXPECT_EQ(row.target, available & -available);
    const PackedLayout layout = packed_layout(3, 5);
    EXPECT_EQ(layout.lanes, row.vector_bytes / 4);
    EXPECT_EQ(layout.width, row.tiles.product.vectors * layout.lanes);
    EXPECT_EQ(describe_cpu().isa, row.isa);
  });
}

}  // namespace
}  // namespace camshaft::cpu::tile_traits_test
