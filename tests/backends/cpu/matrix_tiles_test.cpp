// Tiles in plain C++ against loops, and, where the machine has a unit for them, against that: bit by bit.
#include "backends/cpu/kernels/gemm/matrix_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "backends/cpu/kernels/gemm/portable_tiles.h"
#include "backends/cpu/random_data.h"

namespace camshaft::cpu::matrix_tiles_test {
namespace {

struct Problem {
  TileSums sums;
  std::vector<char> a, b;
  std::vector<uint32_t> begin;
  std::vector<TileRows> rows[2];

  std::vector<uint32_t> run(MatrixUnit unit) {
    std::vector<uint32_t> result(static_cast<size_t>(2 * kTileRows * sums.sums_ld), 77);
    sums.sums = result.data();
    MatrixTiles(unit).add_up(sums);
    return result;
  }
};

Problem random_problem(RandomData& random, TileProduct product) {
  Problem p;
  TileSums& s = p.sums;
  s.product = product;
  s.row_tiles = random.integer(1, 2), s.column_tiles = random.integer(1, 2);
  s.taps = random.integer(1, 3);
  s.steps = {random.integer(1, 3), random.integer(1, kTileWords)};
  const int64_t row = s.taps * s.steps.covered() * 4 + 4 * random.integer(0, 3);
  s.b_stride = 4 * (kTileColumns * s.column_tiles + random.integer(0, 8));
  p.a.resize(static_cast<size_t>(2 * kTileRows * row));
  p.b.resize(static_cast<size_t>(s.taps * s.steps.covered() * s.b_stride));
  for (auto* bytes : {&p.a, &p.b}) {
    if (product == TileProduct::bf16_pairs) {
      for (size_t i = 0; i + 1 < bytes->size(); i += 2) {
        const auto bits = std::bit_cast<uint32_t>(random.real()) >> 16;
        (*bytes)[i] = static_cast<char>(bits), (*bytes)[i + 1] = static_cast<char>(bits >> 8);
      }
    } else {
      for (char& c : *bytes) c = static_cast<char>(random.integer(0, 255));
    }
  }
  p.begin.resize(2 * kTileColumns);
  for (uint32_t& x : p.begin)
    x = product == TileProduct::bf16_pairs ? std::bit_cast<uint32_t>(random.real())
                                           : static_cast<uint32_t>(random.integer(0, 1000));
  for (int i = 0; i < 2; ++i) {
    s.rows[i] = random.integer(1, kTileRows), s.columns[i] = random.integer(1, kTileColumns);
    for (int64_t t = 0; t < s.taps; ++t)
      p.rows[i].push_back({p.a.data() + i * kTileRows * row + t * s.steps.covered() * 4, row});
    s.a[i] = p.rows[i].data();
  }
  s.b = p.b.data();
  s.begin = random.coin() ? p.begin.data() : nullptr;
  s.sums_ld = 2 * kTileColumns;
  return p;
}

TEST(MatrixTiles, BytesLikeLoops) {
  RandomData random;
  for (int round = 0; round < 200; ++round) {
    const TileProduct product = random.coin() ? TileProduct::u8_s8 : TileProduct::s8_s8;
    Problem p = random_problem(random, product);
    const TileSums& s = p.sums;
    const std::vector<uint32_t> got = p.run(MatrixUnit::portable);
    for (int64_t r = 0; r < 2 * kTileRows; ++r) {
      for (int64_t c = 0; c < 2 * kTileColumns; ++c) {
        const int64_t i = r / kTileRows, j = c / kTileColumns;
        uint32_t wanted = 77;  // nothing is written
        if (i < s.row_tiles && j < s.column_tiles && r % kTileRows < s.rows[i] && c % kTileColumns < s.columns[j]) {
          wanted = s.begin ? p.begin[static_cast<size_t>(c)] : 0;
          for (int64_t t = 0; t < s.taps; ++t)
            for (int64_t k = 0; k < s.steps.covered() * 4; ++k) {
              const char a = s.a[i][t].first[r % kTileRows * s.a[i][t].stride + k];
              const char b = s.b[(t * s.steps.covered() + k / 4) * s.b_stride + 4 * c + k % 4];
              const int32_t left = product == TileProduct::u8_s8 ? static_cast<int32_t>(static_cast<uint8_t>(a))
                                                                 : static_cast<int32_t>(static_cast<int8_t>(a));
              wanted += static_cast<uint32_t>(left * static_cast<int8_t>(b));
            }
        }
        ASSERT_EQ(got[static_cast<size_t>(r * s.sums_ld + c)], wanted) << r << "," << c;
      }
    }
  }
}

TEST(MatrixTiles, AsTheProcessorHasThem) {
  RandomData random;
  const bool bytes = byte_matrix_unit() == MatrixUnit::amx, pairs = pair_matrix_unit() == MatrixUnit::amx;
  if (!bytes && !pairs) GTEST_SKIP() << "this machine has no AMX";
  for (int round = 0; round < 300; ++round) {
    const auto product = static_cast<TileProduct>(round % 3);
    if (!(product == TileProduct::bf16_pairs ? pairs : bytes)) continue;
    Problem p = random_problem(random, product);
    ASSERT_EQ(p.run(MatrixUnit::amx), p.run(MatrixUnit::portable)) << "product " << round % 3;
  }
}

// Subnormal operands and sums count as 0, and both elements of pairs have sums of their own.
TEST(MatrixTiles, PairsOfBf16) {
  const auto pair = [](float low, float high) {
    return (std::bit_cast<uint32_t>(low) >> 16) | (std::bit_cast<uint32_t>(high) & 0xffff0000U);
  };
  const auto sum_of = [&](std::vector<uint32_t> a, std::vector<uint32_t> b, float begin) {
    TileSums s;
    s.product = TileProduct::bf16_pairs;
    s.rows[0] = s.columns[0] = 1;
    s.steps = {1, static_cast<int64_t>(a.size())};
    const TileRows rows{reinterpret_cast<const char*>(a.data()), 64};
    s.a[0] = &rows;
    s.b = reinterpret_cast<const char*>(b.data());
    s.b_stride = 4;
    s.begin = &begin;
    float result = 0;
    s.sums = &result;
    s.sums_ld = 1;
    MatrixTiles(MatrixUnit::portable).add_up(s);
    return result;
  };
  EXPECT_EQ(sum_of({pair(2, 3)}, {pair(5, 7)}, 1), 32.0F);
  EXPECT_EQ(sum_of({pair(0x1p-130F, 1)}, {pair(0x1p120F, 2)}, 0), 2.0F);
  EXPECT_EQ(sum_of({pair(0x1p-100F, 0)}, {pair(0x1p-40F, 0)}, 0), 0.0F);
  // 2^24 + 1 + 1 in turn stays 2^24; beside each other the ones are 2 before they meet it.
  EXPECT_EQ(sum_of({pair(4096, 1), pair(0, 1)}, {pair(4096, 1), pair(0, 1)}, 0), 16777218.0F);
  EXPECT_TRUE(std::isnan(sum_of({pair(INFINITY, 1)}, {pair(0, 1)}, 0)));
}

TEST(MatrixTiles, StepsCoverK) {
  for (int64_t words = 0; words < 500; ++words) {
    const TileSteps steps = TileSteps::of(words);
    EXPECT_LE(steps.words, kTileWords);
    EXPECT_GE(steps.covered(), words);
    EXPECT_LT(steps.covered() - words, std::max<int64_t>(1, steps.words)) << "the last step is not empty";
  }
}

TEST(MatrixTiles, ShapesThatDoNotFitAreRefused) {
  const uint8_t rows[16] = {4, 0, 0, 0, 4, 0, 3};  // of sums, A and B: words of A are not rows of B
  const uint16_t bytes[16] = {16, 0, 0, 0, 8, 0, 16};
  PortableTiles tiles(rows, bytes);
  EXPECT_THROW((tiles.multiply<TileProduct::u8_s8, 0, 4, 6>()), Error);
}

TEST(MatrixTiles, MayBeLeftOut) {
  set_matrix_unit_for_test(MatrixUnit::none);
  EXPECT_EQ(byte_matrix_unit(), MatrixUnit::none);
  EXPECT_EQ(spin_tiles(TileProduct::u8_s8, 1), 0);
  reset_matrix_unit_for_test();
}

}  // namespace
}  // namespace camshaft::cpu::matrix_tiles_test
