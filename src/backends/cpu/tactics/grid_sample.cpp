#include "backends/cpu/tactics/grid_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "backends/cpu/kernels/window/grid_sample.h"
#include "backends/cpu/kernels/window/linear_taps.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "base/divide_up.h"
#include "base/work_scope.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/sample.h"
#include "ir/ops/strides.h"
#include "reference/window/grid_taps.h"

namespace camshaft::cpu {

namespace {

constexpr int64_t most_taps = 64;  // cubic ones over three axes

std::optional<double> estimate_grid_sample(const RegionView& region) {
  if (!region.node.op.as<ops::GridSample>()) return std::nullopt;
  for (size_t i = 0; i < 2; ++i)
    if (region.graph.type(region.node.inputs[i]).dtype != DType::f32) return std::nullopt;
  if (region.graph.shape(region.node.inputs[0]).size() > 5) return std::nullopt;
  return seconds_per_launch + 8 * bytes_at_optimum(region) * seconds_per_byte;
}

// Where the points of a grid lie in images of one size.
class GridPoints {
 public:
  GridPoints(const ops::GridSample& op, const Dims& sizes) {
    for (size_t a = 0; a < sizes.size(); ++a) {
      axes_.emplace_back(op, sizes[a]);
      taps_ *= axes_.back().taps();
    }
    strides_ = ops::row_major_strides(sizes);
    is_linear_ = op.mode == ops::SampleMode::linear && op.padding != ops::SamplePadding::reflection;
    linear_.axes = static_cast<int64_t>(sizes.size());
    linear_.align_corners = op.align_corners;
    linear_.clamp = op.padding == ops::SamplePadding::border;
    std::copy(sizes.begin(), sizes.end(), linear_.sizes);
    std::copy(strides_.begin(), strides_.end(), linear_.strides);
  }
  int64_t taps() const { return taps_; }

  void find(const float* grid, int64_t points, const SampleTaps& taps) const {
    if (is_linear_) {
      linear_taps(linear_, grid, points, taps);
    } else {
      for (int64_t p = 0; p < points; ++p) {
        double position[3], weights[most_taps];
        int64_t pixels[most_taps];
        std::copy_n(grid + p * linear_.axes, linear_.axes, position);
        ops::taps_at(axes_, strides_, position, pixels, weights);
        for (int64_t t = 0; t < taps_; ++t) {
          taps.pixels[t * taps.step + p] = static_cast<int32_t>(pixels[t]);
          taps.weights[t * taps.step + p] = static_cast<float>(weights[t]);
        }
      }
    }
    find_side_by_side(taps, points);
  }

 private:
  std::vector<ops::AxisSampler> axes_;
  Dims strides_;
  int64_t taps_ = 1;
  bool is_linear_ = false;
  LinearImage linear_{};
};

class GridSampleLaunch final : public Launch {
 public:
  GridSampleLaunch(const ops::GridSample& op, const Dims& x, const Dims& grid)
      : points_of_(op, Dims(x.begin() + 2, x.end())),
        batch_(x[0]),
        channels_(x[1]),
        plane_(ops::product(x, 2, x.size())),
        points_(ops::product(grid, 1, grid.size() - 1)),
        axes_(static_cast<int64_t>(x.size()) - 2) {
    require_equal(grid[0], x[0], "the batch of grid_sample's grid");
    require_equal(grid.back(), axes_, "the last axis of grid_sample's grid");
    if (batch_ * channels_ * points_ == 0) return;
    if (plane_ == 0)
      throw Error(ErrorCode::invalid_argument, fmt::format("an image of shape {} has nothing to sample", to_string(x)));
    if (plane_ > std::numeric_limits<int32_t>::max())
      throw Error(ErrorCode::unsupported, fmt::format("an image of shape {} is too large to be sampled", to_string(x)));
    // Positions without order meet a whole image. Beyond L2 one channel after the other is sampled at many points, not
    // all of them at a few: 64 channels of 395 x 395 pixels took 160 ms, and take 40.
    constexpr int64_t l2_elements = 128 * 1024, most_kept = 512 * 1024;
    if (channels_ > 1 && channels_ * plane_ > l2_elements)
      kept_ = std::min(round_up(points_, grid_block), most_kept / points_of_.taps() / grid_block * grid_block);
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>(kept_ * points_of_.taps()) * (sizeof(int32_t) + sizeof(float)) +
           static_cast<size_t>(kept_ / grid_group);
  }

  void run(const LaunchArguments& a) override {
    const auto *x = input<float>(a, 0), *grid = input<float>(a, 1);
    auto* const y = output<float>(a, 0);
    if (channels_ == 0) return;
    if (kept_ == 0) return by_points(x, grid, y, a.pool);
    auto* const pixels = reinterpret_cast<int32_t*>(a.workspace);
    auto* const weights = reinterpret_cast<float*>(pixels + kept_ * points_of_.taps());
    const SampleTaps taps{points_of_.taps(), kept_, pixels, weights,
                          reinterpret_cast<uint8_t*>(weights + kept_ * points_of_.taps())};
    for (int64_t b = 0; b < batch_; ++b)
      for (int64_t first = 0; first < points_; first += kept_)
        by_channels(x + b * channels_ * plane_, grid + (b * points_ + first) * axes_, std::min(kept_, points_ - first),
                    taps, y + b * channels_ * points_ + first, a.pool);
  }

 private:
  void by_points(const float* x, const float* grid, float* y, ThreadPool& pool) const {
    const int64_t blocks = divide_up(points_, grid_block);
    pool.parallel_for(batch_ * blocks, 1, [&](int64_t begin, int64_t end) {
      alignas(64) int32_t pixels[most_taps * grid_block];
      alignas(64) float weights[most_taps * grid_block];
      uint8_t side_by_side[grid_block / grid_group];
      const SampleTaps taps{points_of_.taps(), grid_block, pixels, weights, side_by_side};
      for (int64_t item = begin; item < end; ++item) {
        cancellation_point();
        const int64_t b = item / blocks, first = item % blocks * grid_block;
        const int64_t count = std::min(grid_block, points_ - first);
        points_of_.find(grid + (b * points_ + first) * axes_, count, taps);
        sample_block(x + b * channels_ * plane_, channels_, plane_, count, taps, y + b * channels_ * points_ + first,
                     points_);
      }
    });
  }

  void by_channels(const float* x, const float* grid, int64_t count, const SampleTaps& taps, float* y,
                   ThreadPool& pool) const {
    pool.parallel_for(count, grid_block, [&](int64_t begin, int64_t end) {
      for (; begin < end; begin += grid_block)
        points_of_.find(grid + begin * axes_, std::min(grid_block, end - begin), taps.from(begin));
    });
    constexpr int64_t points_a_share = 32 * grid_block;
    const int64_t shares = divide_up(count, points_a_share);
    pool.parallel_for(channels_ * shares, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        cancellation_point();
        const int64_t c = item / shares, first = item % shares * points_a_share;
        sample_block(x + c * plane_, 1, plane_, std::min(points_a_share, count - first), taps.from(first),
                     y + c * points_ + first, points_);
      }
    });
  }

  GridPoints points_of_;
  int64_t batch_, channels_, plane_, points_, axes_;
  int64_t kept_ = 0;  // points whose taps are kept for all channels; 0: each block's, by its thread
};

class GridSampleKernel final : public Kernel {
 public:
  explicit GridSampleKernel(const ops::GridSample& op) : op_(op) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<GridSampleLaunch>(op_, shapes.inputs[0].dims, shapes.inputs[1].dims);
  }

 private:
  ops::GridSample op_;
};

std::shared_ptr<const Kernel> compile_grid_sample(const RegionView& region, PackedConstants&) {
  return std::make_shared<GridSampleKernel>(*region.node.op.as<ops::GridSample>());
}

}  // namespace

const CpuTactic grid_sample_tactic{"grid_sample", estimate_grid_sample, compile_grid_sample};

}  // namespace camshaft::cpu
