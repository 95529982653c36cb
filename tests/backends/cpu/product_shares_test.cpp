// How products are shared by any number of threads, told without so many cores.
#include "backends/cpu/kernels/gemm/product_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "backends/cpu/conv_test_util.h"
#include "backends/cpu/kernel_test_util.h"
#include "backends/cpu/kernels/attention/attention_blocks.h"
#include "backends/cpu/kernels/gemm/gemm.h"
#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/gemm/product_sums.h"
#include "backends/cpu/kernels/gemm/unpacked_gemm.h"
#include "base/thread_pool.h"

namespace camshaft::cpu::product_shares_test {
namespace {

// As AVX-512 cuts a product: tiles of 6 rows, panels of 64 columns, blocks of 512 steps of K and taps that are not cut.
ProductShape shape_of(int64_t m, int64_t n, int64_t taps, int64_t depth) {
  const int64_t k = taps * depth, block = k <= 768 ? 768 : 512;
  int64_t blocks = (k + block - 1) / block;
  if (m <= 6) blocks = 1;
  return {m, n, taps, depth, blocks, 6, 64};
}

TEST(ProductShares, cover_every_row_panel_and_block_once) {
  RandomData random(7);
  for (int round = 0; round < 300; ++round) {
    ProductShape shape =
        shape_of(random.integer(1, 150), random.integer(1, 900), random.integer(1, 9), random.integer(1, 700));
    shape.k_blocks = random.integer(1, 6);
    shape.groups = random.integer(1, 5);
    for (const int threads : {1, 2, 3, 5, 8, 16, 33, 64}) {
      const ProductShares shares(shape, threads);
      ASSERT_LE(shares.threads(), threads);
      std::vector<int> seen(static_cast<size_t>(shape.m * shape.all_panels() * shares.k_blocks()));
      for (int thread = 0; thread < shares.threads(); ++thread) {
        shares.for_each(thread, [&](const ProductPiece& piece) {
          const Share& share = piece.share;
          ASSERT_EQ(piece.k_block < 0, shares.k_blocks() == 1);
          ASSERT_TRUE(share.m0 < share.m1 && share.p0 < share.p1 && share.p1 <= shape.panels());
          ASSERT_TRUE(!shape.has_few_rows() || (share.m0 == 0 && share.m1 == shape.m)) << "few rows stay together";
          const int64_t block = std::max<int64_t>(piece.k_block, 0) * shape.groups + piece.group;
          for (int64_t panel = share.p0; panel < share.p1; ++panel)
            for (int64_t row = share.m0; row < share.m1; ++row)
              ++seen[static_cast<size_t>((block * shape.panels() + panel) * shape.m + row)];
        });
      }
      ASSERT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }))
          << shape.groups << " of " << shape.m << "x" << shape.n << " of " << shape.k_blocks << " blocks, " << threads
          << " threads";
    }
  }
}

TEST(ProductShares, parts_of_a_row_cover_every_panel_and_part_once) {
  for (const int64_t panels : {1, 3, 4, 7, 12, 36, 255}) {
    for (const int64_t parts : {2, 5, 48}) {
      for (const int threads : {1, 2, 3, 16, 64}) {
        std::vector<int> seen(static_cast<size_t>(panels * parts));
        for (int thread = 0; thread < threads; ++thread) {
          for_each_row_part(panels, 4, parts, threads, thread, [&](int64_t part, int64_t first, int64_t end) {
            ASSERT_TRUE(first < end && first / 4 == (end - 1) / 4);
            for (int64_t panel = first; panel < end; ++panel) ++seen[static_cast<size_t>(part * panels + panel)];
          });
        }
        ASSERT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
      }
    }
  }
}

struct Layer {
  const char* name;
  int64_t m, n, taps, depth;
};

// Products of models at batch 1 (BERT: 128 tokens).
const Layer layers[] = {
    {"ResNet-50 stem", 112 * 112, 64, 7, 21},       {"ResNet-50 2 reduce", 56 * 56, 64, 1, 256},
    {"ResNet-50 2 3x3", 56 * 56, 64, 9, 64},        {"ResNet-50 2 expand", 56 * 56, 256, 1, 64},
    {"ResNet-50 3 reduce", 28 * 28, 128, 1, 512},   {"ResNet-50 3 3x3", 28 * 28, 128, 9, 128},
    {"ResNet-50 3 expand", 28 * 28, 512, 1, 128},   {"ResNet-50 4 reduce", 14 * 14, 256, 1, 1024},
    {"ResNet-50 4 3x3", 14 * 14, 256, 9, 256},      {"ResNet-50 4 expand", 14 * 14, 1024, 1, 256},
    {"ResNet-50 5 reduce", 7 * 7, 512, 1, 2048},    {"ResNet-50 5 3x3", 7 * 7, 512, 9, 512},
    {"ResNet-50 5 expand", 7 * 7, 2048, 1, 512},    {"BERT projection", 128, 768, 1, 768},
    {"BERT intermediate", 128, 3072, 1, 768},       {"BERT output", 128, 768, 1, 3072},
    {"MobileNetV2 stem", 112 * 112, 32, 3, 9},      {"MobileNetV2 2 expand", 56 * 56, 144, 1, 24},
    {"MobileNetV2 2 project", 56 * 56, 24, 1, 144}, {"MobileNetV2 4 expand", 14 * 14, 384, 1, 64},
    {"MobileNetV2 4 project", 14 * 14, 64, 1, 384}, {"MobileNetV2 5 expand", 14 * 14, 576, 1, 96},
    {"MobileNetV2 6 expand", 7 * 7, 960, 1, 160},   {"MobileNetV2 6 project", 7 * 7, 160, 1, 960},
    {"MobileNetV2 head", 7 * 7, 1280, 1, 320},      {"ViT patches", 14 * 14, 768, 16, 48},
    {"ViT projections", 197, 2304, 1, 768},         {"ViT projection", 197, 768, 1, 768},
    {"ViT intermediate", 197, 3072, 1, 768},        {"ViT output", 197, 768, 1, 3072},
};

// Of what the threads that take part do, the share that is not waiting for the busiest. Products of few rows take as
// long as reading B does, others as long as multiplying.
double balance(const ProductShape& shape, int threads, int* used, int64_t* bytes) {
  const ProductShares shares(shape, threads);
  double all = 0, most = 0;
  for (int thread = 0; thread < shares.threads(); ++thread) {
    double own = 0;
    shares.for_each(thread, [&](const ProductPiece& piece) {
      const Share& share = piece.share;
      const int64_t columns = std::min(shape.n, share.p1 * shape.panel_columns) - share.p0 * shape.panel_columns;
      const int64_t rows = shape.has_few_rows() ? 1 : share.m1 - share.m0;
      const double k = static_cast<double>(shape.taps * shape.depth) / static_cast<double>(shares.k_blocks());
      own += static_cast<double>(rows * columns) * k;
      if (piece.k_block >= 0) *bytes += (share.m1 - share.m0) * columns * 4;
    });
    all += own;
    most = std::max(most, own);
  }
  *used = shares.threads();
  return all / (most * shares.threads());
}

void expect_even(const std::string& name, const ProductShape& shape, double macs_of_shared_byte = 50) {
  const double macs =
      static_cast<double>(shape.m * shape.n * shape.groups) * static_cast<double>(shape.taps * shape.depth);
  const double floats_read =
      static_cast<double>(shape.n * shape.groups) * static_cast<double>(shape.taps * shape.depth);
  for (const int threads : {8, 16, 32, 64}) {
    int used = 0;
    int64_t shared_bytes = 0;
    const double even = balance(shape, threads, &used, &shared_bytes);
    EXPECT_GE(even, 0.85) << name << ": " << used << " of " << threads << " threads";
    // Waking a thread is worth it for some 128 cycles for each one that is awake already. Threads that would leave the
    // largest part as it is are not woken.
    const double worth = std::floor(std::sqrt((shape.has_few_rows() ? floats_read / 2 : macs / 32) / 128));
    EXPECT_GE(used, (shape.has_few_rows() ? 0.75 : 1.0) * std::min<double>(threads, worth)) << name;
    // What is written and read again for the sake of the balance is little beside the work, or what is read anyway.
    EXPECT_LE(static_cast<double>(shared_bytes),
              std::max(macs / macs_of_shared_byte, shape.has_few_rows() ? floats_read : 0))
        << name << ", " << threads << " threads";
  }
}

TEST(ProductShares, of_models_are_even_for_up_to_64_threads) {
  for (const Layer& layer : layers) expect_even(layer.name, shape_of(layer.m, layer.n, layer.taps, layer.depth));
}

// Batches of rows that are classified, or of words that are made one after the other.
TEST(ProductShares, of_few_rows_are_even_for_up_to_64_threads) {
  struct {
    const char* name;
    int64_t k, n;
  } const layers_of_rows[] = {
      {"GPT-2 projections", 768, 2304},    {"GPT-2 projection", 768, 768}, {"GPT-2 up", 768, 3072},
      {"GPT-2 down", 3072, 768},           {"GPT-2 words", 768, 50257},    {"ResNet-50 classes", 2048, 1000},
      {"MobileNetV2 classes", 1280, 1000}, {"VGG-16 second", 4096, 4096},  {"7B up", 4096, 11008}};
  for (const auto& layer : layers_of_rows) {
    for (const int64_t m : {2, 3, 6}) {
      ProductShape shape = shape_of(m, layer.n, 1, layer.k);
      shape.k_blocks = row_product_parts(layer.k, shape.panels(), shape.panel_columns);
      expect_even(layer.name + (", rows: " + std::to_string(m)), shape);
    }
  }
}

TEST(ProductShares, of_groups_are_even_for_up_to_64_threads) {
  struct {
    const char* name;
    int64_t groups, m, n, taps, depth;
  } const grouped[] = {{"ResNeXt-50 3", 32, 28 * 28, 32, 9, 32},   {"ResNeXt-50 4", 32, 14 * 14, 32, 9, 32},
                       {"ResNeXt-101 5", 64, 7 * 7, 32, 9, 32},    {"RegNetY 14x14", 8, 14 * 14, 56, 9, 56},
                       {"wav2vec positions", 16, 49, 48, 128, 48}, {"AlexNet 2", 2, 27 * 27, 128, 25, 48},
                       {"heads of 64", 12, 197, 197, 1, 64},       {"two large products", 2, 384, 384, 1, 1024},
                       {"three of one tile", 3, 6, 1024, 1, 1024}};
  for (const auto& g : grouped) {
    ProductShape shape = shape_of(g.m, g.n, g.taps, g.depth);
    if (shape.has_few_rows()) shape.k_blocks = row_product_parts(g.depth, shape.panels(), shape.panel_columns);
    shape.groups = g.groups;
    expect_even(g.name, shape);
  }
}

TEST(ProductShares, of_rows_with_factors_are_even_for_up_to_64_threads) {
  struct {
    const char* name;
    int64_t m, n, k;
  } const gated[] = {{"EfficientNet-B0 6", 14 * 14, 112, 672},
                     {"EfficientNet-B0 7", 7 * 7, 192, 1152},
                     {"MobileNetV3 15", 7 * 7, 160, 960},
                     {"EfficientNet-B4", 12 * 12, 160, 960}};
  for (const auto& g : gated) {
    // Rows are copied, up to 128 elements of K at a time, and a sum of so many is 4 bytes.
    ProductShape shape = shape_of(g.m, g.n, 1, g.k);
    shape.k_blocks = (g.k + 127) / 128;
    expect_even(g.name, shape, 25);
  }
}

TEST(ProductShares, of_one_row_are_even_for_up_to_64_threads) {
  struct {
    const char* name;
    int64_t k, n;
  } const rows[] = {
      {"GPT-2 projections", 768, 2304},   {"GPT-2 projection", 768, 768}, {"GPT-2 up", 768, 3072},
      {"GPT-2 down", 3072, 768},          {"GPT-2 words", 768, 50257},    {"ResNet-50 classes", 2048, 1000},
      {"MobileNetV2 classes", 1280, 1000}};
  for (const auto& row : rows) {
    const int64_t panels = (row.n + 63) / 64, parts = row_product_parts(row.k, panels, 64);
    for (const int most : {8, 16, 32, 64}) {
      const auto threads = static_cast<int>(std::min<int64_t>(most, row.k * panels * 64 / (1 << 14)));
      int64_t largest = 0;
      for (int thread = 0; thread < threads; ++thread) {
        int64_t own = 0;
        for_each_row_part(panels, 4, parts, threads, thread,
                          [&](int64_t, int64_t first, int64_t end) { own += end - first; });
        largest = std::max(largest, own);
      }
      EXPECT_GE(static_cast<double>(panels * parts) / static_cast<double>(largest * threads), 0.85)
          << row.name << ", " << threads << " threads";
    }
  }
}

TEST(ProductShares, of_attention_with_one_query_are_even_for_up_to_64_threads) {
  for (const int64_t keys : {256, 1024, 4096}) {
    AttentionArgs args;
    args.outer = 12, args.queries = 1, args.keys = keys, args.size = args.value_size = 64;
    const int64_t units = args.outer * AttentionParts::count(args);
    const int64_t kib = args.outer * keys * 128 * 4 / 1024;
    for (const int most : {8, 16, 32, 64}) {
      const int64_t threads = std::min<int64_t>(most, units), largest = (units + threads - 1) / threads;
      EXPECT_TRUE(static_cast<double>(units) >= 0.85 * static_cast<double>(largest * threads) || kib < 64 * threads)
          << keys << " keys, " << units << " units, " << threads << " threads";
    }
  }
}

TEST(UsefulThreads, grow_with_the_work) {
  EXPECT_EQ(useful_threads(0, 2), 2);
  EXPECT_EQ(useful_threads(0, 64), 4);
  EXPECT_EQ(useful_threads(128.0 * 30 * 30, 64), 30);
  EXPECT_EQ(useful_threads(1e30, 64), 64);
}

struct Doubler {
  float* c;
  int64_t ldc;
  static void call(void* context, int64_t row0, int64_t rows, int64_t col0, int64_t cols) {
    auto* self = static_cast<Doubler*>(context);
    for (int64_t i = row0; i < row0 + rows; ++i)
      for (int64_t j = col0; j < col0 + cols; ++j) self->c[i * self->ldc + j] *= 2.0f;
  }
};

constexpr int thread_counts[] = {1, 2, 5, 16, 40};

// The same bits from one thread and from any number, whether blocks of K are summed apart or not, through everything
// that an epilogue does; and right ones.
TEST(ProductSums, OfBlocksOnManyThreads) {
  const uint64_t seed = test_seed();
  const Activation leaky{.core = Activation::Core::slope, .gated = true, .lo = 0.25f, .hi = 1.0f};
  for_each_target([&] {
    RandomData random(seed);
    for (const int64_t m : {1, 2, 3, 5, 6, 7, 49}) {
      const int64_t n = 130, k = 4000, ldc = n + 3;
      const std::vector<float> a = random.vector(m * k), b = random.vector(k * n), bias = random.vector(n);
      const std::vector<float> residual = random.vector(m * ldc), addend = random.vector(m * ldc);
      const PackedLayout layout = packed_layout(k, n);
      std::vector<float> packed(static_cast<size_t>(layout.floats()));
      pack_b(layout, b.data(), n, 1, packed.data());
      for (int kind = 0; kind < 4; ++kind) {
        std::vector<float> expected;
        for (const int threads : thread_counts) {
          ThreadPool pool(threads);
          std::vector<float> c = residual;
          Doubler doubler{c.data(), ldc};
          GemmArgs args;
          args.m = m, args.n = n, args.k = k;
          args.a = a.data(), args.lda = k;
          args.packed_b = packed.data();
          args.c = c.data(), args.ldc = ldc;
          if (kind > 0) args.epilogue.bias = bias.data();
          args.epilogue.residual_ld = ldc;
          if (kind == 1) args.epilogue.residual = c.data(), args.epilogue.hi = 1;
          if (kind == 2)
            args.epilogue.residual = residual.data(), args.epilogue.more_residuals[0] = {addend.data(), ldc};
          args.epilogue.addend_ld = ldc;
          if (kind == 3) args.epilogue.activation = &leaky, args.epilogue.addend = addend.data();
          if (kind == 3) args.epilogue.callback = Doubler::call, args.epilogue.context = &doubler;
          Workspace workspace(gemm_workspace_bytes(m, n, k, threads));
          gemm(args, pool, workspace.get());
          if (threads == 1) expected = c;
          ASSERT_EQ(c, expected) << m << " rows, kind " << kind << ", " << threads << " threads";
        }
        for (int64_t i = 0; i < m * ldc; ++i) {
          const int64_t row = i / ldc, column = i % ldc;
          if (column >= n) continue;
          double sum = 0, scale = 0;
          for (int64_t x = 0; x < k; ++x) {
            const double term =
                static_cast<double>(a[static_cast<size_t>(row * k + x)]) * b[static_cast<size_t>(x * n + column)];
            sum += term, scale += std::fabs(term);
          }
          const auto index = static_cast<size_t>(i);
          if (kind > 0) sum += bias[static_cast<size_t>(column)];
          if (kind == 1 || kind == 2) sum += residual[index];
          if (kind == 1) sum = std::min(sum, 1.0);
          if (kind == 2) sum += addend[index];
          if (kind == 3) sum = 2 * (sum * (sum < 0 ? 0.25 : 1) + addend[index]);
          ASSERT_NEAR(expected[index], sum, (kind == 3 ? 8e-7 : 4e-7) * scale)
              << row << "," << column << ", kind " << kind;
        }
      }
    }
  });
  // That they are summed apart at all, on this machine.
  for (const int64_t m : {2, 6, 49}) {
    CoreProblem problem;
    problem.m = m, problem.n = 130, problem.depth = 4000;
    EXPECT_GT(ProductShares(shape_of_products(problem, 1, 40), 40).k_blocks(), 1);
    EXPECT_GT(product_sums_bytes(problem, 1, 40), 0);
    EXPECT_EQ(product_sums_bytes(problem, 1, 2), 0);
  }
}

// NaN and infinities come through however K is cut, and in no other row.
TEST(ProductSums, OfNumbersThatAreNotFinite) {
  const int64_t m = 4, n = 70, k = 4096;
  std::vector<float> a(static_cast<size_t>(m * k), 1), b(static_cast<size_t>(k * n), 1);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  a[static_cast<size_t>(0 * k + 4090)] = std::numeric_limits<float>::quiet_NaN();
  a[static_cast<size_t>(1 * k + 7)] = infinity;
  a[static_cast<size_t>(2 * k + 7)] = infinity, a[static_cast<size_t>(2 * k + 4000)] = -infinity;
  const PackedLayout layout = packed_layout(k, n);
  std::vector<float> packed(static_cast<size_t>(layout.floats()));
  pack_b(layout, b.data(), n, 1, packed.data());
  for (const int threads : thread_counts) {
    ThreadPool pool(threads);
    std::vector<float> c(static_cast<size_t>(m * n));
    GemmArgs args{m, n, k, a.data(), k, packed.data(), c.data(), n, {}, Words::f32};
    Workspace workspace(gemm_workspace_bytes(m, n, k, threads));
    gemm(args, pool, workspace.get());
    for (int64_t j = 0; j < n; ++j) {
      ASSERT_TRUE(std::isnan(c[static_cast<size_t>(j)]));
      ASSERT_EQ(c[static_cast<size_t>(n + j)], infinity);
      ASSERT_TRUE(std::isnan(c[static_cast<size_t>(2 * n + j)]));
      ASSERT_EQ(c[static_cast<size_t>(3 * n + j)], k);
    }
  }
}

// Transposed operands too, whose elements are copied; batches that are fewer than the threads or do not divide among
// them, and that are cut together; few rows, whose B is read in place, and a single column.
TEST(ProductSums, OfBatchesOnManyThreads) {
  const uint64_t seed = test_seed();
  for_each_target([&] {
    RandomData random(seed);
    struct {
      int64_t batch, m, n, k;
    } const batches[] = {{1, 49, 130, 1500}, {1, 6, 200, 2000}, {3, 5, 70, 1000}, {3, 20, 65, 700}, {17, 6, 33, 300},
                         {5, 1, 64, 1030},   {2, 3, 200, 2000}, {1, 4, 20, 9000}, {3, 150, 1, 700}};
    for (const auto& s : batches) {
      for (int round = 0; round < 4; ++round) {
        const bool transposed = round % 2 == 1, b_transposed = round >= 2, plain = s.n == 1;
        const std::vector<float> a = random.vector(s.batch * s.m * s.k), b = random.vector(s.batch * s.k * s.n);
        const std::vector<float> residual = random.vector(s.batch * s.m * s.n), bias = random.vector(s.n);
        std::vector<float> expected;
        for (const int threads : thread_counts) {
          ThreadPool pool(threads);
          std::vector<float> c = residual;
          Doubler doubler{c.data(), s.n};
          BatchGemmArgs args;
          args.batch = args.inner_batch = s.batch;
          args.m = s.m, args.n = s.n, args.k = s.k;
          args.a = a.data(), args.a_inner_stride = s.m * s.k;
          args.a_row_stride = transposed ? 1 : s.k, args.a_k_stride = transposed ? s.m : 1;
          args.b = b.data(), args.b_inner_stride = s.k * s.n;
          args.b_k_stride = b_transposed ? 1 : s.n, args.b_n_stride = b_transposed ? s.k : 1;
          args.c = c.data(), args.c_inner_stride = s.m * s.n, args.c_row_stride = s.n;
          args.epilogue.residual = c.data();
          if (!plain) args.epilogue.bias = bias.data();
          if (!plain) args.epilogue.callback = Doubler::call, args.epilogue.context = &doubler;
          Workspace workspace(batch_gemm_workspace_bytes(args, threads));
          batch_gemm(args, pool, workspace.get());
          if (threads == 1) expected = c;
          ASSERT_EQ(c, expected) << s.batch << " of " << s.m << "x" << s.n << ", transposed " << transposed
                                 << b_transposed << ", " << threads << " threads";
        }
        for (int64_t i = 0; i < s.batch * s.m * s.n; ++i) {
          const int64_t element = i / (s.m * s.n), row = i / s.n % s.m, column = i % s.n;
          double sum = 0, scale = 0;
          for (int64_t x = 0; x < s.k; ++x) {
            const int64_t in_a = element * s.m * s.k + (transposed ? x * s.m + row : row * s.k + x);
            const int64_t in_b = element * s.k * s.n + (b_transposed ? column * s.k + x : x * s.n + column);
            const double term = static_cast<double>(a[at(in_a)]) * b[at(in_b)];
            sum += term, scale += std::fabs(term);
          }
          sum += residual[at(i)];
          if (!plain) sum = 2 * (sum + bias[at(column)]);
          ASSERT_NEAR(expected[at(i)], sum, 1e-6 * (scale + 1)) << i;
        }
      }
    }
  });
  CoreProblem transposed;
  transposed.m = 49, transposed.n = 130, transposed.depth = 1500, transposed.rows.k_stride = 49;
  EXPECT_GT(ProductShares(shape_of_products(transposed, 1, 40), 40).k_blocks(), 1);
}

TEST(UnpackedCut, is_even_for_up_to_64_threads) {
  struct {
    int64_t batch, m, n, k;
  } const products[] = {{12, 1, 64, 1024}, {12, 1, 1024, 64}, {32, 1, 128, 4096}, {32, 1, 4096, 128},
                        {1, 4, 768, 768},  {8, 1, 80, 8192},  {16, 2, 64, 512},   {1, 1, 32000, 4096}};
  for (const auto& p : products) {
    BatchGemmArgs args;
    args.batch = p.batch, args.m = p.m, args.n = p.n, args.k = p.k;
    for (const int threads : {8, 16, 32, 64}) {
      const UnpackedCut cut(args, threads);
      const int64_t units = p.batch * cut.chunks * cut.parts, largest = (units + cut.threads - 1) / cut.threads;
      EXPECT_GE(static_cast<double>(units), 0.85 * static_cast<double>(largest * cut.threads))
          << p.batch << " of " << p.m << "x" << p.n << "x" << p.k << ", " << cut.threads << " threads";
      EXPECT_GE(cut.threads, std::min<int64_t>(threads, p.batch * p.n * p.k / (1 << 15)));
    }
  }
}

// Convolutions with groups, and with rows that are multiplied by gates.
TEST(ProductSums, OfConvolutionsOnManyThreads) {
  const uint64_t seed = test_seed();
  for_each_target([&] {
    RandomData random(seed);
    ConvShape of_groups{.batch = 2, .in_h = 7, .in_w = 5, .in_channels = 120, .out_channels = 150, .kernel_h = 3};
    of_groups.kernel_w = 3, of_groups.pad_top = of_groups.pad_left = of_groups.pad_bottom = of_groups.pad_right = 1;
    of_groups.groups = 3;
    const ConvShape gated{.batch = 2, .in_h = 5, .in_w = 5, .in_channels = 900, .out_channels = 70};
    const ConvShape few{.in_h = 2, .in_w = 3, .in_channels = 900, .out_channels = 140};
    for (const ConvShape& s : {of_groups, gated, few}) {
      const bool has_gates = s.groups == 1;
      const int64_t pixels = s.batch * s.out_h() * s.out_w();
      const std::vector<float> input = random.vector(s.batch * s.in_h * s.in_w * s.in_channels);
      const std::vector<float> gates = random.vector(s.batch * s.in_channels), bias = random.vector(s.out_channels);
      const int64_t channels = s.in_channels / s.groups, points = s.kernel_h * s.kernel_w;
      const std::vector<float> weights = random.vector(s.out_channels * channels * points);
      const ConvWeights w = conv_weights(s.out_channels, channels, s.kernel_h, s.kernel_w, s.groups);
      std::vector<float> packed(static_cast<size_t>(w.floats()));
      pack_conv_weights(w, weights.data(), packed.data());
      const ConvPlan plan(s);
      std::vector<float> expected;
      for (const int threads : thread_counts) {
        ThreadPool pool(threads);
        std::vector<float> y(static_cast<size_t>(pixels * s.out_channels));
        Doubler doubler{y.data(), s.out_channels};
        Epilogue e;
        e.bias = bias.data();
        e.callback = Doubler::call, e.context = &doubler;
        Workspace workspace(plan.workspace_bytes(threads, has_gates));
        conv(plan, input.data(), packed.data(), y.data(), e, pool, workspace.get(), has_gates ? gates.data() : nullptr);
        if (threads == 1) expected = y;
        ASSERT_EQ(y, expected) << s.groups << " groups, " << s.in_channels << " channels, " << threads << " threads";
      }
      std::vector<float> multiplied = input;
      for (size_t i = 0; has_gates && i < input.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        const int64_t image = at / (s.in_h * s.in_w * s.in_channels);
        multiplied[i] *= gates[static_cast<size_t>(image * s.in_channels + at % s.in_channels)];
      }
      const std::vector<Sum> sums = reference_conv(s, multiplied, weights);
      for (size_t i = 0; i < sums.size(); ++i)
        ASSERT_NEAR(expected[i], 2 * (sums[i].value + bias[i % bias.size()]), 1e-6 * (sums[i].scale + 1)) << i;
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::product_shares_test
