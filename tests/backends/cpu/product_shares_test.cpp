// How products are shared by any number of threads, told without so many cores.
#include "backends/cpu/kernels/gemm/product_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "backends/cpu/kernel_test_util.h"
#include "backends/cpu/kernels/attention/attention_blocks.h"
#include "backends/cpu/kernels/gemm/gemm.h"
#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/gemm/product_sums.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {
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
    for (const int threads : {1, 2, 3, 5, 8, 16, 33, 64}) {
      const ProductShares shares(shape, threads);
      ASSERT_LE(shares.threads(), threads);
      std::vector<int> seen(static_cast<size_t>(shape.m * shape.panels() * shares.k_blocks()));
      for (int thread = 0; thread < shares.threads(); ++thread) {
        shares.for_each(thread, [&](int64_t block, const Share& share) {
          ASSERT_EQ(block < 0, shares.k_blocks() == 1);
          ASSERT_TRUE(share.m0 < share.m1 && share.p0 < share.p1);
          for (int64_t panel = share.p0; panel < share.p1; ++panel)
            for (int64_t row = share.m0; row < share.m1; ++row)
              ++seen[static_cast<size_t>((std::max<int64_t>(block, 0) * shape.panels() + panel) * shape.m + row)];
        });
      }
      ASSERT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }))
          << shape.m << "x" << shape.n << " of " << shape.k_blocks << " blocks, " << threads << " threads";
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

// Of the multiplications and additions of the threads that take part, the share that is not waiting for the busiest.
double balance(const Layer& layer, int threads, int* used, int64_t* bytes) {
  const ProductShape shape = shape_of(layer.m, layer.n, layer.taps, layer.depth);
  const ProductShares shares(shape, threads);
  double all = 0, most = 0;
  for (int thread = 0; thread < shares.threads(); ++thread) {
    double own = 0;
    shares.for_each(thread, [&](int64_t block, const Share& share) {
      const int64_t columns = std::min(shape.n, share.p1 * 64) - share.p0 * 64;
      const double k = static_cast<double>(shape.taps * shape.depth) / static_cast<double>(shares.k_blocks());
      own += static_cast<double>((share.m1 - share.m0) * columns) * k;
      if (block >= 0) *bytes += (share.m1 - share.m0) * columns * 4;
    });
    all += own;
    most = std::max(most, own);
  }
  *used = shares.threads();
  return all / (most * shares.threads());
}

TEST(ProductShares, of_models_are_even_for_up_to_64_threads) {
  for (const Layer& layer : layers) {
    const double macs = static_cast<double>(layer.m * layer.n) * static_cast<double>(layer.taps * layer.depth);
    for (const int threads : {8, 16, 32, 64}) {
      int used = 0;
      int64_t shared_bytes = 0;
      const double even = balance(layer, threads, &used, &shared_bytes);
      EXPECT_GE(even, 0.85) << layer.name << ": " << used << " of " << threads << " threads";
      // Waking a thread is worth it for some 128 cycles for each one that is awake already.
      EXPECT_GE(used, std::min<double>(threads, std::floor(std::sqrt(macs / 32 / 128)))) << layer.name;
      // What is written and read again for the sake of the balance is little beside the work.
      EXPECT_LE(static_cast<double>(shared_bytes), macs / 50) << layer.name << ", " << threads << " threads";
    }
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

// The same bits from one thread and from any number, whether blocks of K are summed apart or not, through everything
// that an epilogue does.
TEST(ProductSums, OfBlocksOnManyThreads) {
  const uint64_t seed = test_seed();
  const Activation leaky{.core = Activation::Core::slope, .gated = true, .lo = 0.25f, .hi = 1.0f};
  for_each_target([&] {
    RandomData random(seed);
    for (const int64_t m : {1, 7, 49}) {
      const int64_t n = 130, k = 4000, ldc = n + 3;
      const std::vector<float> a = random.vector(m * k), b = random.vector(k * n), bias = random.vector(n);
      const std::vector<float> residual = random.vector(m * ldc), addend = random.vector(m * ldc);
      const PackedLayout layout = packed_layout(k, n);
      std::vector<float> packed(static_cast<size_t>(layout.floats()));
      pack_b(layout, b.data(), n, 1, packed.data());
      for (int kind = 0; kind < 4; ++kind) {
        std::vector<float> expected;
        for (const int threads : {1, 2, 5, 16, 40}) {
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
      }
    }
  });
  // That they are summed apart at all, on this machine.
  ProductShape shape = core_product_shape(49, 130, 1, 4000);
  CoreProblem problem;
  problem.m = 49, problem.n = 130, problem.depth = 4000;
  shape.k_blocks = core_k_blocks(problem);
  EXPECT_GT(ProductShares(shape, 40).k_blocks(), 1);
  EXPECT_GT(product_sums_bytes(49, 130, 1, 4000, 40), 0);
  EXPECT_EQ(product_sums_bytes(49, 130, 1, 4000, 2), 0);
}

}  // namespace
}  // namespace camshaft::cpu
