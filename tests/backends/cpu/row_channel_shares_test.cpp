// How depthwise and grouped convolutions, Winograd, pooling and pointwise programs are shared by any number of threads,
// told without so many cores; and that their results are the same on all of them.
#include "backends/cpu/kernels/row_channel_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backends/cpu/conv_test_util.h"
#include "backends/cpu/kernels/conv/depthwise.h"
#include "backends/cpu/kernels/conv/grouped_conv.h"
#include "backends/cpu/kernels/conv/winograd.h"
#include "backends/cpu/kernels/pointwise/pointwise.h"
#include "backends/cpu/kernels/window/pool.h"

namespace camshaft::cpu::row_channel_shares_test {
namespace {

constexpr int core_counts[] = {8, 16, 32, 64};

// What the threads that take part do, as a part of what they could do while the busiest works.
double balance(const RowChannelShares& shares) {
  double all = 0, most = 0;
  for (int thread = 0; thread < shares.threads(); ++thread) {
    const RowChannelShare share = shares.share(thread);
    const double own = static_cast<double>((share.row1 - share.row0) * (share.channel1 - share.channel0));
    all += own;
    most = std::max(most, own);
  }
  return all / (most * shares.threads());
}

// Bytes of the input that more than one thread reads, as windows see `overlap` rows beyond a part's own.
double bytes_read_again(const RowChannelShares& shares, int64_t rows, double overlap, double row_channel_bytes) {
  double bytes = 0;
  for (int thread = 0; thread < shares.threads(); ++thread) {
    const RowChannelShare share = shares.share(thread);
    if (share.row1 < rows) bytes += overlap * static_cast<double>(share.channel1 - share.channel0) * row_channel_bytes;
  }
  return bytes;
}

TEST(RowChannelShares, cover_every_row_and_channel_once) {
  RandomData random;
  for (int round = 0; round < 300; ++round) {
    const int64_t rows = random.integer(0, 70), channels = random.integer(0, 300), grain = random.coin() ? 16 : 1;
    for (const int threads : {1, 2, 3, 5, 8, 16, 33, 64}) {
      const RowChannelShares shares(rows, channels, random.uniform(0, 3), threads, grain);
      ASSERT_LE(shares.threads(), threads);
      std::vector<int> seen(static_cast<size_t>(rows * channels));
      for (int thread = 0; thread < shares.threads(); ++thread) {
        const RowChannelShare share = shares.share(thread);
        ASSERT_EQ(share.channel0 % grain, share.is_empty() ? share.channel0 % grain : 0);
        for (int64_t row = share.row0; row < share.row1; ++row)
          for (int64_t c = share.channel0; c < share.channel1; ++c) ++seen[static_cast<size_t>(row * channels + c)];
      }
      ASSERT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }))
          << rows << " rows of " << channels << " channels, " << threads << " threads";
    }
  }
}

struct DepthwiseLayer {
  const char* name;
  int64_t size, channels, kernel, stride;
};

ConvShape depthwise_shape(const DepthwiseLayer& layer) {
  ConvShape s;
  s.in_h = s.in_w = layer.size;
  s.in_channels = s.out_channels = s.groups = layer.channels;
  s.kernel_h = s.kernel_w = layer.kernel;
  s.stride_h = s.stride_w = layer.stride;
  s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = layer.kernel / 2;
  return s;
}

TEST(DepthwiseShares, of_models_are_even_for_up_to_64_threads) {
  const DepthwiseLayer layers[] = {{"MobileNetV2 1", 112, 32, 3, 1},       {"MobileNetV2 2", 112, 96, 3, 2},
                                   {"MobileNetV2 3", 56, 144, 3, 1},       {"MobileNetV2 4", 28, 192, 3, 2},
                                   {"MobileNetV2 5", 14, 384, 3, 1},       {"MobileNetV2 6", 14, 576, 3, 1},
                                   {"MobileNetV2 7", 14, 576, 3, 2},       {"MobileNetV2 8", 7, 960, 3, 1},
                                   {"MobileNetV3 5x5", 14, 672, 5, 1},     {"EfficientNet-B0 5x5", 28, 240, 5, 1},
                                   {"EfficientNet-B0 7x7", 7, 1152, 5, 1}, {"ConvNeXt 56", 56, 96, 7, 1},
                                   {"ConvNeXt 14", 14, 384, 7, 1},         {"ConvNeXt 7", 7, 768, 7, 1},
                                   {"EfficientNet-B4 12", 12, 960, 5, 1}};
  for (const DepthwiseLayer& layer : layers) {
    const ConvShape s = depthwise_shape(layer);
    const double macs = static_cast<double>(s.out_h() * s.out_w() * layer.channels * layer.kernel * layer.kernel);
    for (const int threads : core_counts) {
      const RowChannelShares shares = depthwise_shares(s, threads);
      EXPECT_GE(balance(shares), 0.85) << layer.name << ": " << shares.threads() << " of " << threads << " threads";
      // Of those that are worth waking a grid need not use all.
      const double worth = std::min<double>(threads, std::floor(std::sqrt(macs / 16 / 128)));
      EXPECT_GE(shares.threads(), 0.75 * worth) << layer.name << ", " << threads << " threads";
      // Lines that several threads read are no more than all lines once again.
      const double again = bytes_read_again(shares, s.out_h(), static_cast<double>(layer.kernel - layer.stride),
                                            static_cast<double>(4 * s.in_w));
      EXPECT_LE(again, 4.0 * static_cast<double>(s.in_h * s.in_w * layer.channels) * layer.kernel) << layer.name;
    }
  }
}

TEST(PoolShares, of_models_are_even_for_up_to_64_threads) {
  struct {
    const char* name;
    int64_t size, channels, kernel, stride;
  } const layers[] = {{"ResNet-50", 112, 64, 3, 2},          {"VGG-16 1", 224, 64, 2, 2},
                      {"VGG-16 5", 14, 512, 2, 2},           {"GoogLeNet branch", 28, 192, 3, 1},
                      {"GoogLeNet branch 2", 14, 512, 3, 1}, {"GoogLeNet branch 3", 7, 832, 3, 1},
                      {"YOLOv5s SPPF", 20, 256, 5, 1},       {"DenseNet", 56, 128, 2, 2}};
  for (const auto& layer : layers) {
    for (const bool channels_last : {true, false}) {
      SpatialPool p;
      p.channels = layer.channels;
      p.channels_last = channels_last;
      p.height = p.width = {layer.size, (layer.size - 1) / layer.stride + 1, layer.kernel, layer.stride, 1, 0, 0};
      const int64_t taps = p.height.out * p.width.out * layer.channels * layer.kernel * layer.kernel;
      for (const int threads : core_counts) {
        const RowChannelShares shares = p.shares(threads);
        EXPECT_GE(balance(shares), 0.85) << layer.name << ": " << shares.threads() << " of " << threads << " threads";
        const double worth =
            std::min<double>({static_cast<double>(threads), static_cast<double>(taps / (32 * 1024)),
                              std::floor(std::sqrt(static_cast<double>(taps) / (channels_last ? 16 : 8) / 128))});
        EXPECT_GE(shares.threads(), 0.75 * worth) << layer.name << ", " << threads << " threads";
      }
    }
  }
}

TEST(GroupedShares, of_models_are_even_for_up_to_64_threads) {
  struct {
    const char* name;
    int64_t size, channels, groups;
  } const layers[] = {{"ResNeXt-50 2", 56, 128, 32}, {"ResNeXt-50 3", 28, 256, 32}, {"ResNeXt-50 4", 14, 512, 32},
                      {"ResNeXt-50 5", 7, 1024, 32}, {"RegNetX 14", 14, 408, 17},   {"signal", 1, 768, 48}};
  for (const auto& layer : layers) {
    ConvShape s = depthwise_shape({layer.name, layer.size, layer.channels, 3, 1});
    s.groups = layer.groups;
    if (layer.size == 1) s.in_w = 1000, s.kernel_h = 1, s.pad_top = s.pad_bottom = 0;
    const GroupedWeights w =
        grouped_weights(layer.channels, layer.channels / layer.groups, s.kernel_h, 3, layer.groups);
    const double steps = static_cast<double>(s.out_h() * s.out_w() * w.units() * w.vectors()) *
                         static_cast<double>(s.kernel_h * 3 * w.group_channels);
    for (const int threads : core_counts) {
      const RowChannelShares shares = grouped_conv_shares(w, s, threads);
      EXPECT_GE(balance(shares), 0.85) << layer.name << ": " << shares.threads() << " of " << threads << " threads";
      // Units are not cut apart.
      const double worth = std::min<double>({static_cast<double>(threads), std::floor(std::sqrt(steps / 128)),
                                             static_cast<double>(s.out_h() * w.units())});
      EXPECT_GE(shares.threads(), 0.75 * worth) << layer.name << ", " << threads << " threads";
    }
  }
}

TEST(WinogradShares, of_models_are_even_for_up_to_64_threads) {
  struct {
    const char* name;
    int64_t batch, size, in_channels, out_channels, dilation;
  } const layers[] = {{"ResNet-50 2", 1, 56, 64, 64, 1},
                      {"ResNet-50 3", 1, 28, 128, 128, 1},
                      {"ResNet-50 4", 1, 14, 256, 256, 1},
                      {"ResNet-50 5", 1, 7, 512, 512, 1},
                      {"ResNet-50 4, batch 8", 8, 14, 256, 256, 1},
                      {"VGG-16 1", 1, 224, 64, 64, 1},
                      {"VGG-16 5", 1, 14, 512, 512, 1},
                      {"super-resolution", 1, 224, 64, 32, 1},
                      {"YOLOv5s", 1, 80, 64, 64, 1},
                      {"DeepLab, dilated", 1, 28, 256, 256, 2}};
  for (const auto& layer : layers) {
    ConvShape s = depthwise_shape({layer.name, layer.size, layer.in_channels, 3, 1});
    s.batch = layer.batch, s.out_channels = layer.out_channels, s.groups = 1;
    s.dilation_h = s.dilation_w = s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = layer.dilation;
    for (const int64_t tile : {4, 2}) {
      for (const int threads : core_counts) {
        const WinogradShares shares = winograd_shares(tile, s, threads);
        SCOPED_TRACE(testing::Message() << layer.name << ", tile " << tile << ", " << threads << " threads");
        if (!shares.is_shared) {
          EXPECT_EQ(shares.input.threads(), threads);
          EXPECT_GE(balance(shares.input), 0.85);
          continue;
        }
        // Lines that a dilation puts others in between are not cut into tiles.
        const double least = layer.dilation == 1 ? 0.85 : 0.75;
        EXPECT_GE(balance(shares.input), least) << shares.input.threads() << " transform the input";
        EXPECT_GE(balance(shares.output), least) << shares.output.threads() << " transform the output";
        const ProductShares products(shares.products, threads);
        double all = 0, most = 0;
        for (int thread = 0; thread < products.threads(); ++thread) {
          double own = 0;
          products.for_each(thread, [&](const ProductPiece& piece) {
            EXPECT_LT(piece.k_block, 0);
            const Share& share = piece.share;
            const int64_t width = shares.products.panel_columns;
            own += static_cast<double>((share.m1 - share.m0) *
                                       (std::min(s.out_channels, share.p1 * width) - share.p0 * width));
          });
          all += own;
          most = std::max(most, own);
        }
        EXPECT_GE(all / (most * products.threads()), 0.85) << products.threads() << " multiply";
        const double macs = all * static_cast<double>(s.in_channels);
        EXPECT_GE(products.threads(), std::min<double>(threads, std::floor(std::sqrt(macs / 32 / 128))));
      }
    }
  }
}

TEST(PointwiseShares, cover_every_element_once_and_are_even) {
  RandomData random;
  for (int round = 0; round < 2000; ++round) {
    const int64_t rows = random.coin() ? 1 : random.integer(1, 3000), row = random.integer(1, 100'000);
    for (const int cores : core_counts) {
      const int threads = PointwiseShares::useful(rows * row, cores);
      ASSERT_LE(threads, cores);
      ASSERT_GE(threads, std::min<int64_t>(cores, rows * row / (32 * 1024)));
      const PointwiseShares shares{rows, row, threads};
      ASSERT_EQ(shares.begin(0), 0);
      ASSERT_EQ(shares.begin(threads), rows * row);
      int64_t most = 0;
      for (int thread = 0; thread < threads; ++thread) {
        ASSERT_LE(shares.begin(thread), shares.begin(thread + 1));
        most = std::max(most, shares.begin(thread + 1) - shares.begin(thread));
      }
      ASSERT_GE(static_cast<double>(rows * row) / static_cast<double>(most * threads), 0.85)
          << rows << " rows of " << row << ", " << threads << " threads";
    }
  }
}

// `run(output, epilogue, pool)` on several numbers of threads.
template <class Run>
void expect_same_on_all(RandomData& random, int64_t pixels, int64_t channels, const std::string& name, const Run& run) {
  const std::vector<float> bias = random.vector(channels), residual = random.vector(pixels * channels);
  const std::vector<float> addend = random.vector(pixels * channels);
  const Activation leaky{.core = Activation::Core::slope, .gated = true, .lo = 0.25f, .hi = 1.0f};
  std::vector<float> expected;
  for (const int threads : {1, 2, 5, 16, 40}) {
    ThreadPool pool(threads);
    std::vector<float> y(static_cast<size_t>(pixels * channels), kGuard);
    Negator negator{y.data(), channels};
    Epilogue e;
    e.bias = bias.data();
    e.residual = residual.data(), e.residual_ld = channels;
    e.activation = &leaky, e.addend = addend.data(), e.addend_ld = channels;
    e.callback = Negator::call, e.context = &negator;
    run(y.data(), e, pool);
    if (threads == 1) expected = y;
    ASSERT_EQ(y, expected) << name << ", " << threads << " threads";
  }
}

TEST(RowChannelShares, results_are_the_same_on_all_numbers_of_threads) {
  const uint64_t seed = test_seed();
  for_each_target([&] {
    RandomData random(seed);
    for (int round = 0; round < 6; ++round) {
      const DepthwiseLayer layer{"", random.integer(5, 30), random.integer(30, 400), 2 * random.integer(1, 3) + 1,
                                 random.integer(1, 2)};
      ConvShape s = depthwise_shape(layer);
      s.batch = random.integer(1, 2);
      const int64_t pixels = s.batch * s.out_h() * s.out_w();
      const std::vector<float> x = random.vector(s.batch * s.in_h * s.in_w * layer.channels);
      const std::vector<float> weights = random.vector(layer.channels * layer.kernel * layer.kernel);
      std::vector<float> packed(at(depthwise_weight_floats(layer.channels, layer.kernel, layer.kernel)));
      pack_depthwise_weights(layer.channels, layer.kernel, layer.kernel, weights.data(), packed.data());
      expect_same_on_all(
          random, pixels, layer.channels, "depthwise " + describe(s),
          [&](float* y, const Epilogue& e, ThreadPool& pool) { depthwise(s, x.data(), packed.data(), y, e, pool); });

      SpatialPool p;
      p.batch = s.batch, p.channels = layer.channels, p.channels_last = random.coin(), p.average = random.coin();
      p.height = p.width = {s.in_h, s.out_h(), layer.kernel, layer.stride, 1, layer.kernel / 2, layer.kernel / 2};
      expect_same_on_all(random, pixels, layer.channels, "pooling " + describe(s),
                         [&](float* y, const Epilogue&, ThreadPool& pool) { p.run(pool, x.data(), y); });

      ConvShape dense = s;
      dense.kernel_h = dense.kernel_w = 3, dense.stride_h = dense.stride_w = 1, dense.groups = 1;
      dense.dilation_h = random.integer(1, 2), dense.dilation_w = random.integer(1, 2);
      dense.pad_top = dense.pad_left = dense.pad_bottom = dense.pad_right = 2;
      dense.out_channels = random.integer(20, 90);
      const WinogradWeights w = winograd_weights(random.coin() ? 4 : 2, dense.out_channels, layer.channels);
      const std::vector<float> matrix = random.vector(dense.out_channels * layer.channels * 9);
      std::vector<float> transformed(at(w.floats()));
      pack_winograd_weights(w, matrix.data(), transformed.data());
      expect_same_on_all(random, dense.batch * dense.out_h() * dense.out_w(), dense.out_channels,
                         "Winograd " + describe(dense), [&](float* y, const Epilogue& e, ThreadPool& pool) {
                           Workspace workspace(winograd_workspace_bytes(w.tile, dense, pool.size()));
                           winograd(w, dense, x.data(), transformed.data(), y, e, pool, workspace.get());
                         });
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::row_channel_shares_test
