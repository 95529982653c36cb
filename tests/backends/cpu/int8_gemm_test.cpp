// Products of 8-bit numbers on raw pointers against loops in i64: tails, extremes, taps, every instruction set, with
// and without the one that multiplies quads.
#include "backends/cpu/kernels/gemm/int8_gemm.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/kernel_test_util.h"
#include "base/thread_pool.h"

namespace camshaft::cpu::int8_gemm_test {
namespace {

constexpr int32_t kGuard = 0x5b5b5b5b;
// Each way of multiplying bytes that this machine has, and tiles without a unit for them.
std::vector<Int8Instructions> all_instructions() {
  std::vector<Int8Instructions> all{
      {has_int8_dots(), MatrixUnit::none}, {false, MatrixUnit::none}, {has_int8_dots(), MatrixUnit::portable}};
  if (byte_matrix_unit() == MatrixUnit::amx) all.push_back({});
  return all;
}

std::vector<uint8_t> bytes(RandomData& random, int64_t count, bool extreme) {
  std::vector<uint8_t> values(static_cast<size_t>(count));
  for (uint8_t& v : values)
    v = static_cast<uint8_t>(extreme ? (random.coin() ? 255 : 127 + random.integer(0, 1)) : random.integer(0, 255));
  return values;
}

struct Case {
  int64_t m, n, taps, depth, groups;
  bool matrix, flip_a, flip_b, extreme;
};

// What the kernel makes of bytes that it takes as they are, or moves by 128.
int64_t stored(uint8_t byte, bool flip, bool is_signed) {
  const auto kept = static_cast<uint8_t>(flip ? byte ^ 0x80 : byte);
  return is_signed ? static_cast<int8_t>(kept) : kept;
}

struct Taps {
  const std::vector<uint8_t>* a;
  int64_t m, depth, taps;
  // Tap t of row m lies at ((t * m) + row) * depth.
  static void fill(const void* context, int64_t row0, int64_t rows, const uint8_t** pointers, int64_t stride) {
    const auto& self = *static_cast<const Taps*>(context);
    for (int64_t t = 0; t < self.taps; ++t)
      for (int64_t r = 0; r < rows; ++r)
        pointers[t * stride + r] = self.a->data() + (t * self.m + row0 + r) * self.depth;
  }
};

void check(const Case& s, RandomData& random, ThreadPool& pool, const Int8Instructions& by) {
  SCOPED_TRACE(testing::Message() << s.m << "x" << s.n << " taps " << s.taps << " depth " << s.depth << " groups "
                                  << s.groups << " matrix " << s.matrix << " flips " << s.flip_a << s.flip_b << " dots "
                                  << by.dots << " unit " << static_cast<int>(by.matrix_unit) << " threads "
                                  << pool.size());
  const Int8Weights w = int8_weights(s.groups, s.n, s.taps, s.depth, s.matrix);
  const std::vector<uint8_t> a = bytes(random, s.m * s.taps * s.depth, s.extreme);
  const std::vector<uint8_t> b = bytes(random, s.groups * s.n * w.k(), s.extreme);
  std::vector<std::byte> packed(static_cast<size_t>(w.bytes()));
  pack_int8(w, b.data(), s.flip_b, packed.data());
  std::vector<uint8_t> back(b.size());
  unpack_int8(w, packed.data(), s.flip_b, back.data());
  ASSERT_EQ(back, b);

  const int64_t ldc = s.n + 3;
  std::vector<int32_t> begin(static_cast<size_t>(w.padded_columns())), zeros(begin.size()), sums(begin.size());
  std::vector<int32_t> row_zeros(static_cast<size_t>(s.m));
  for (auto* numbers : {&begin, &zeros, &sums, &row_zeros})
    for (int32_t& v : *numbers) v = static_cast<int32_t>(random.integer(-300, 300));
  const bool columns_differ = random.coin(), rows_differ = random.coin();
  for (int64_t g = 0; g < s.groups; ++g) {
    std::vector<int32_t> c(static_cast<size_t>(s.m * ldc), kGuard);
    const Taps taps{&a, s.m, s.depth, s.taps};
    Int8Problem p;
    p.m = s.m;
    p.weights = &w;
    p.packed = packed.data() + g * w.group_words() * 4;
    p.rows = {s.taps, s.depth, a.data(), s.depth, nullptr, nullptr, s.flip_a};
    if (s.taps > 1) p.rows.fill = &Taps::fill, p.rows.context = &taps;
    p.begin = begin.data();
    if (columns_differ) p.column_zeros = zeros.data();
    if (rows_differ) p.row_zeros = row_zeros.data(), p.row_zero_sums = sums.data();
    p.c = c.data();
    p.ldc = ldc;
    Workspace workspace(int8_workspace_bytes(w, s.m, s.taps, false, pool.size(), by));
    int8_gemm(p, pool, workspace.get(), by);
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < ldc; ++j) {
        const int32_t actual = c[static_cast<size_t>(i * ldc + j)];
        if (j >= s.n) {
          ASSERT_EQ(actual, kGuard) << "gap written";
          continue;
        }
        int64_t sum = begin[static_cast<size_t>(j)], of_row = 0;
        for (int64_t t = 0; t < s.taps; ++t)
          for (int64_t d = 0; d < s.depth; ++d) {
            const int64_t x = stored(a[static_cast<size_t>((t * s.m + i) * s.depth + d)], s.flip_a, false);
            const int64_t at = s.matrix ? (t * s.depth + d) * s.n + j : ((g * s.n + j) * s.depth + d) * s.taps + t;
            of_row += x;
            sum += x * stored(b[static_cast<size_t>(at)], s.flip_b, true);
          }
        if (columns_differ) sum -= of_row * zeros[static_cast<size_t>(j)];
        if (rows_differ) sum -= row_zeros[static_cast<size_t>(i)] * sums[static_cast<size_t>(j)];
        ASSERT_EQ(actual, static_cast<int32_t>(sum)) << i << "," << j;
      }
    }
  }
}

TEST(Int8Gemm, LikeLoops) {
  RandomData random;
  for_each_target([&] {
    for (const int threads : {1, 3, 16}) {
      ThreadPool pool(threads);
      for (int round = 0; round < 60; ++round) {
        Case s{random.integer(0, 40), random.integer(0, 140), random.integer(1, 5), random.integer(0, 40), 1,
               random.coin(),         random.coin(),          random.coin(),        random.coin()};
        if (round % 3 == 0) s.depth = 4 * random.integer(4, 12);
        if (round % 3 == 1) s.taps = 1;
        if (round % 20 == 0) s.m = random.integer(200, 500);
        if (!s.matrix) s.groups = random.integer(1, 3);
        if (s.matrix && s.taps > 1 && s.depth == 0) continue;
        for (const Int8Instructions& by : all_instructions()) check(s, random, pool, by);
      }
    }
  });
}

// Several groups of panels, and blocks of rows that are about as high.
TEST(Int8Gemm, OfManyPanels) {
  RandomData random;
  for_each_target([&] {
    for (const int threads : {1, 2}) {
      ThreadPool pool(threads);
      for (const auto& [m, n] : {std::pair(70, 700), std::pair(33, 1100), std::pair(280, 330)}) {
        const int64_t depth = 4 * random.integer(16, 20);
        for (const Int8Instructions& by : all_instructions())
          check({m, n + random.integer(0, 64), 1, depth, 1, true, random.coin(), random.coin(), false}, random, pool,
                by);
      }
    }
  });
}

// K is cut where threads would have nothing to do: along the taps of rows that are read in place, else along quads.
TEST(Int8Gemm, OfBlocksOnManyThreads) {
  RandomData random;
  for_each_target([&] {
    for (const int threads : {5, 40}) {
      ThreadPool pool(threads);
      for (const int64_t m : {1, 3, 6, 20}) {
        for (const int64_t n : {20, 150}) {
          for (const bool flip : {false, true}) {
            check({m, n, 1, 4801, 1, true, flip, random.coin(), true}, random, pool, {false, MatrixUnit::none});
            if (m == 1) check({m, n, 1, 48000, 1, true, flip, random.coin(), false}, random, pool, {});
            for (const Int8Instructions& by : all_instructions()) {
              if (by.matrix_unit == MatrixUnit::none && by.dots != has_int8_dots()) continue;
              check({m, n, 1, 4800, 1, true, flip, random.coin(), false}, random, pool, by);
              check({m, n, 9, 528, 1, false, flip, random.coin(), false}, random, pool, by);
              check({m, n, 300, 15, 1, false, flip, random.coin(), false}, random, pool, by);
            }
          }
        }
      }
    }
  });
  // That K is cut at all, on any machine: of 4800 numbers one row is not where panels are as narrow as with AVX2.
  for (const int64_t m : {1, 6, 20}) {
    const Int8Weights w = int8_weights(1, 150, 1, m == 1 ? 48000 : 4800, true);
    EXPECT_GT(ProductShares(int8_product_shape(w, m, 1, true), 40).k_blocks(), 1) << m;
    EXPECT_EQ(ProductShares(int8_product_shape(w, m, 1, true), 2).k_blocks(), 1);
    EXPECT_GT(int8_workspace_bytes(w, m, 1, false, 40), 40 * int8_workspace_bytes(w, m, 1, false, 1));
  }
}

struct Collector {
  std::vector<int32_t> sums;
  std::vector<float>* c;
  int64_t n;
  static void take(void* context, const int32_t* block, int64_t ld, int64_t row0, int64_t rows, int64_t col0,
                   int64_t cols) {
    auto& self = *static_cast<Collector*>(context);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j)
        self.sums[static_cast<size_t>((row0 + i) * self.n + col0 + j)] += block[i * ld + j];
  }
  static void twice(void* context, int64_t row0, int64_t rows, int64_t col0, int64_t cols) {
    auto& self = *static_cast<Collector*>(context);
    for (int64_t i = row0; i < row0 + rows; ++i)
      for (int64_t j = col0; j < col0 + cols; ++j) (*self.c)[static_cast<size_t>(i * self.n + j)] *= 2;
  }
};

// Whatever becomes of the sums becomes of them once, and is the same as on one thread.
TEST(Int8Gemm, FinishesBlocksAsOneThreadDoes) {
  RandomData random;
  const Activation leaky{.core = Activation::Core::slope, .gated = true, .lo = 0.25f, .hi = 1.0f};
  for_each_target([&] {
    for (const int64_t m : {1, 5, 20}) {
      const int64_t n = 150, k = 4800;
      const Int8Weights w = int8_weights(1, n, 1, k, true);
      const std::vector<uint8_t> a = bytes(random, m * k, false), b = bytes(random, n * k, false);
      std::vector<std::byte> packed(static_cast<size_t>(w.bytes()));
      pack_int8(w, b.data(), true, packed.data());
      const auto padded = static_cast<size_t>(w.padded_columns());
      const std::vector<int32_t> begin(padded, 7), zeros(padded, 3);
      std::vector<float> scale(padded), bias = random.vector(n), addend = random.vector(m * n);
      for (float& v : scale) v = 1e-5f * (2 + random.real());
      for (const Int8Result result : {Int8Result::scaled, Int8Result::steps, Int8Result::activated, Int8Result::sums}) {
        std::vector<float> expected_floats;
        std::vector<uint8_t> expected_bytes;
        std::vector<int32_t> expected_sums;
        // The first is what all others are held to.
        std::vector<std::pair<int, Int8Instructions>> ways;
        for (const Int8Instructions& by : all_instructions())
          for (const int threads : {1, 5, 40}) ways.emplace_back(threads, by);
        for (const auto& [threads, by] : ways) {
          SCOPED_TRACE(testing::Message() << m << " rows, result " << static_cast<int>(result) << ", " << threads
                                          << " threads, unit " << static_cast<int>(by.matrix_unit));
          ThreadPool pool(threads);
          std::vector<float> floats(static_cast<size_t>(m * n));
          std::vector<uint8_t> steps(floats.size());
          Collector collector{std::vector<int32_t>(floats.size()), &floats, n};
          Int8Problem p;
          p.m = m;
          p.weights = &w;
          p.packed = packed.data();
          p.rows.depth = k, p.rows.base = a.data(), p.rows.row_stride = k;
          p.begin = begin.data(), p.column_zeros = zeros.data();
          p.result = result;
          p.scale = scale.data();
          p.ldc = n;
          p.steps.zero = 120;
          if (result == Int8Result::scaled) {
            p.c = floats.data();
            p.epilogue.bias = bias.data();
            p.epilogue.activation = &leaky, p.epilogue.addend = addend.data(), p.epilogue.addend_ld = n;
            p.epilogue.callback = Collector::twice, p.epilogue.context = &collector;
          } else if (result == Int8Result::steps) {
            p.c = steps.data();
          } else if (result == Int8Result::activated) {
            // A NaN and what is beyond 8 bits, too.
            scale[0] = std::numeric_limits<float>::quiet_NaN(), scale[1] = 1e30F;
            p.c = steps.data();
            p.epilogue.bias = bias.data();
            p.epilogue.activation = &leaky, p.epilogue.addend = addend.data(), p.epilogue.addend_ld = n;
            p.steps.own = 10, p.steps.shift = 0.25F, p.steps.is_plain = false;
          } else {
            p.finish = Collector::take, p.finish_context = &collector;
          }
          Workspace workspace(int8_workspace_bytes(w, m, 1, p.gives_blocks(), threads, by));
          int8_gemm(p, pool, workspace.get(), by);
          if (expected_floats.empty()) expected_floats = floats, expected_bytes = steps, expected_sums = collector.sums;
          if (result == Int8Result::activated) {
            // What `scaled` makes of the same, rounded here.
            Int8Problem real = p;
            real.result = Int8Result::scaled;
            real.c = floats.data();
            int8_gemm(real, pool, workspace.get(), by);
            for (size_t i = 0; i < floats.size(); ++i) {
              const float moved = std::nearbyint(std::fma(floats[i], 10.0F, 0.25F)) + 120;
              const float wanted = std::isnan(floats[i]) ? 0 : std::min(std::max(moved, 0.0F), 255.0F);
              ASSERT_EQ(steps[i], static_cast<uint8_t>(wanted)) << floats[i];
            }
          } else {
            ASSERT_EQ(floats, expected_floats);
          }
          ASSERT_EQ(steps, expected_bytes);
          ASSERT_EQ(collector.sums, expected_sums);
        }
      }
    }
  });
}

// 255 · 127 twice is more than 16 bits hold.
TEST(Int8Gemm, DoesNotSaturate) {
  constexpr int64_t kRows = 17;
  for_each_target([&] {
    ThreadPool pool(1);
    for (const Int8Instructions& by : all_instructions()) {
      const Int8Weights w = int8_weights(1, 33, 1, 64, true);
      const std::vector<uint8_t> a(kRows * 64, 255), b(64 * 33, 127);
      std::vector<std::byte> packed(static_cast<size_t>(w.bytes()));
      pack_int8(w, b.data(), false, packed.data());
      const std::vector<int32_t> begin(static_cast<size_t>(w.padded_columns()), 1);
      std::vector<int32_t> c(kRows * 33);
      Int8Problem p;
      p.m = kRows;
      p.weights = &w;
      p.packed = packed.data();
      p.rows.depth = 64;
      p.rows.base = a.data();
      p.rows.row_stride = 64;
      p.begin = begin.data();
      p.c = c.data();
      p.ldc = 33;
      Workspace workspace(int8_workspace_bytes(w, kRows, 1, false, 1, by));
      int8_gemm(p, pool, workspace.get(), by);
      EXPECT_EQ(c, std::vector<int32_t>(c.size(), 64 * 255 * 127 + 1));
    }
  });
}

// Rows as convolutions have them: neighbours in a line, a step apart, and lines that end in the middle of a tile.
TEST(Int8Gemm, RowsOfLines) {
  struct Lines {
    const uint8_t* base;
    int64_t line, pixel, pixels, taps;
    static void fill(const void* context, int64_t row0, int64_t rows, const uint8_t** pointers, int64_t stride) {
      const auto& l = *static_cast<const Lines*>(context);
      for (int64_t t = 0; t < l.taps; ++t)
        for (int64_t r = 0; r < rows; ++r)
          pointers[t * stride + r] = l.base + ((row0 + r) / l.pixels + t) * l.line + (row0 + r) % l.pixels * l.pixel;
    }
  };
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      Lines lines;
      // A few channels in lines, with room behind them; or pixels of many.
      const bool few = round % 3 == 0;
      const int64_t depth = few ? random.integer(1, 32) : 4 * random.integer(4, 40);
      lines.pixels = random.integer(1, 40);
      lines.taps = random.integer(1, 4);
      lines.pixel = few ? random.integer(1, 8) : depth * random.integer(1, 2);
      const int64_t image_lines = random.integer(1, 6), n = random.integer(1, 100);
      lines.line = (lines.pixels - 1) * lines.pixel + depth + random.integer(0, 3);
      const std::vector<uint8_t> image =
          bytes(random, (image_lines + lines.taps) * lines.line + Int8Rows::kRoom, false);
      lines.base = image.data();
      const Int8Weights w = int8_weights(1, n, lines.taps, depth, true, few ? depth : 0);
      const std::vector<uint8_t> b = bytes(random, n * w.k(), false);
      std::vector<std::byte> packed(static_cast<size_t>(w.bytes()));
      pack_int8(w, b.data(), false, packed.data());
      const std::vector<int32_t> begin(static_cast<size_t>(w.padded_columns()), -5);
      std::vector<int32_t> expected;
      Int8Problem p;
      p.m = image_lines * lines.pixels;
      p.weights = &w;
      p.packed = packed.data();
      p.rows.taps = lines.taps, p.rows.depth = depth;
      p.rows.fill = &Lines::fill, p.rows.context = &lines;
      p.rows.has_room = few || random.coin();
      p.begin = begin.data();
      p.ldc = n;
      for (const Int8Instructions& by : all_instructions()) {
        SCOPED_TRACE(testing::Message() << lines.taps << " taps of " << depth << ", " << lines.pixels << " pixels of "
                                        << lines.pixel << ", unit " << static_cast<int>(by.matrix_unit));
        std::vector<int32_t> c(static_cast<size_t>(p.m * n));
        p.c = c.data();
        ThreadPool pool(1 + round % 4);
        Workspace workspace(int8_workspace_bytes(w, p.m, lines.taps, false, pool.size(), by));
        int8_gemm(p, pool, workspace.get(), by);
        if (expected.empty()) expected = c;
        ASSERT_EQ(c, expected);
      }
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::int8_gemm_test
