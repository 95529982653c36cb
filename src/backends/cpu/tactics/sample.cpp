#include "backends/cpu/tactics/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "backends/cpu/kernels/conv/col2im.h"
#include "backends/cpu/kernels/window/grid_sample.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "backends/cpu/tactics/spatial_view.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/window_ops.h"
#include "reference/window/grid_taps.h"

namespace camshaft::cpu {

namespace {

bool all_f32(const RegionView& region, size_t inputs) {
  for (size_t i = 0; i < inputs; ++i)
    if (region.graph.type(region.node.inputs[i]).dtype != DType::f32) return false;
  return true;
}

// ---- grid_sample

constexpr size_t most_taps = 64;  // cubic ones over three axes

std::optional<double> estimate_grid_sample(const RegionView& region) {
  if (!region.node.op.as<ops::GridSample>() || !all_f32(region, 2)) return std::nullopt;
  if (region.graph.shape(region.node.inputs[0]).size() > 5) return std::nullopt;
  return seconds_per_launch + 8 * bytes_at_optimum(region) * seconds_per_byte;
}

class GridSampler {
 public:
  GridSampler(const ops::GridSample& op, const KernelShapes& shapes) {
    const Dims &x = shapes.inputs[0].dims, &grid = shapes.inputs[1].dims;
    spatial_ = x.size() - 2;
    require_equal(grid[0], x[0], "the batch of grid_sample's grid");
    require_equal(grid.back(), static_cast<int64_t>(spatial_), "the last axis of grid_sample's grid");
    batch_ = x[0];
    channels_ = x[1];
    points_ = element_count(Dims(grid.begin() + 1, grid.end() - 1));
    strides_.assign(spatial_, 1);
    for (size_t a = spatial_; a-- > 0; plane_ *= x[2 + a]) strides_[a] = plane_;
    for (size_t a = 0; a < spatial_; ++a) {
      axes_.emplace_back(op, x[2 + a]);
      taps_ *= static_cast<size_t>(axes_.back().taps());
    }
    if (batch_ * channels_ * points_ == 0) return;
    if (plane_ == 0)
      throw Error(ErrorCode::invalid_argument, fmt::format("an image of shape {} has nothing to sample", to_string(x)));
    if (plane_ > std::numeric_limits<int32_t>::max())
      throw Error(ErrorCode::unsupported, fmt::format("an image of shape {} is too large to be sampled", to_string(x)));
  }

  void run(ThreadPool& pool, const float* x, const float* grid, float* y) const {
    if (channels_ == 0) return;
    const int64_t blocks = (points_ + grid_block - 1) / grid_block;
    pool.parallel_for(batch_ * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t b = item / blocks, first = item % blocks * grid_block;
        const int64_t count = std::min(grid_block, points_ - first);
        sample(x + b * channels_ * plane_, grid + (b * points_ + first) * static_cast<int64_t>(spatial_), count,
               y + b * channels_ * points_ + first);
      }
    });
  }

 private:
  void sample(const float* image, const float* grid, int64_t count, float* to) const {
    int32_t pixels[most_taps * grid_block];
    float weights[most_taps * grid_block];
    for (int64_t p = 0; p < count; ++p, grid += spatial_) {
      double position[3], point_weights[most_taps];
      int64_t point_pixels[most_taps];
      std::copy_n(grid, spatial_, position);
      ops::taps_at(axes_, strides_, position, point_pixels, point_weights);
      for (size_t t = 0; t < taps_; ++t) {
        pixels[t * grid_block + static_cast<size_t>(p)] = static_cast<int32_t>(point_pixels[t]);
        weights[t * grid_block + static_cast<size_t>(p)] = static_cast<float>(point_weights[t]);
      }
    }
    sample_block(image, channels_, plane_, count, static_cast<int64_t>(taps_), pixels, weights, to, points_);
  }

  size_t spatial_ = 2, taps_ = 1;
  int64_t batch_ = 0, channels_ = 0, points_ = 0, plane_ = 1;
  Dims strides_;
  std::vector<ops::AxisSampler> axes_;
};

std::shared_ptr<const Kernel> compile_grid_sample(const RegionView& region, PackedConstants&) {
  return simple_kernel([op = *region.node.op.as<ops::GridSample>()](const KernelShapes& shapes) {
    return [sampler = GridSampler(op, shapes)](const LaunchArguments& a) {
      sampler.run(a.pool, input<float>(a, 0), input<float>(a, 1), output<float>(a, 0));
    };
  });
}

// ---- col2im

std::optional<Dims> kernel_of(const RegionView& region) {
  const Tensor* kernel = region.constant(2);
  if (!kernel) return std::nullopt;
  return kernel->to_ints();
}

std::optional<double> estimate_col2im(const RegionView& region) {
  const auto* op = region.node.op.as<ops::Col2Im>();
  if (!op || op->strides.size() != 2 || !all_f32(region, 1)) return std::nullopt;
  const auto kernel = kernel_of(region);
  if (!kernel || kernel->size() != 2) return std::nullopt;
  // Where only running tells the image's size, the result is dynamic.
  const ValueId image = region.node.inputs[1];
  if (!region.graph.is_constant(image) && !region.graph.value(image).content) return std::nullopt;
  return seconds_per_launch + 2 * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_col2im(const RegionView& region, PackedConstants&) {
  return simple_kernel(
      [op = *region.node.op.as<ops::Col2Im>(), kernel = *kernel_of(region)](const KernelShapes& shapes) {
        const Dims &x = shapes.inputs[0].dims, &y = shapes.outputs[0].dims;
        const std::array<int64_t, 4> pads = pads_of(op.pads, *shapes.symbols);
        const auto windows = [&](size_t axis) {
          const int64_t room = y[2 + axis] + pads[axis] + pads[2 + axis] - (kernel[axis] - 1) * op.dilations[axis] - 1;
          return room < 0 ? 0 : room / op.strides[axis] + 1;
        };
        Col2Im fold{y[0] * y[1],     y[2],      y[3],          windows(0),    windows(1),
                    kernel[0],       kernel[1], op.strides[0], op.strides[1], op.dilations[0],
                    op.dilations[1], pads[0],   pads[1]};
        require_equal(x[1], y[1] * kernel[0] * kernel[1], "the number of elements of col2im's windows");
        require_equal(x[2], fold.window_rows * fold.window_columns, "the number of col2im's windows");
        return [fold](const LaunchArguments& a) { fold.run(a.pool, input<float>(a, 0), output<float>(a, 0)); };
      });
}

}  // namespace

const CpuTactic grid_sample_tactic{"grid_sample", estimate_grid_sample, compile_grid_sample};
const CpuTactic col2im_tactic{"col2im", estimate_col2im, compile_col2im};

}  // namespace camshaft::cpu
