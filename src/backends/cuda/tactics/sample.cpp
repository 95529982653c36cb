// Images sampled between their pixels, and put together from windows, on a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "backends/cuda/codegen/sample_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/device/col2im_parameters.h"
#include "backends/cuda/device/sample_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "base/divide_up.h"
#include "compile/optimum.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/spatial.h"
#include "ir/ops/window_ops.h"

namespace camshaft::cuda {

namespace {

bool is_sampled(DType dtype) {
  return has_device_type(dtype) && is_floating(dtype);
}

struct SamplingFunction {
  SamplingFunction(const Workshop& workshop, const char* name, const std::string& text)
      : device(workshop.device()), function(workshop.module(name, text).function(fmt::format("{}_any", name))) {}
  std::shared_ptr<const Device> device;  // outlives the function
  Function function;
};

// ---- grid_sample

std::optional<double> estimate_grid_sample(const RegionView& region, const DeviceFacts&) {
  const Node& node = region.node;
  if (!node.op.as<ops::GridSample>() || !is_sampled(region.graph.type(node.inputs[0]).dtype) ||
      !is_sampled(region.graph.type(node.inputs[1]).dtype) || region.graph.shape(node.inputs[0]).size() > 5)
    return std::nullopt;
  return seconds_per_launch + 4 * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_grid_sample(const RegionView& region, const Workshop& workshop) {
  const auto type = [&](size_t i) { return region.graph.type(region.node.inputs[i]).dtype; };
  const auto axes = static_cast<int>(region.graph.shape(region.node.inputs[0]).size()) - 2;
  const SamplingFunction loaded(workshop, "grid_sample",
                                grid_sample_text(*region.node.op.as<ops::GridSample>(), axes, type(0), type(1)));
  return device_kernel([loaded](const KernelShapes& shapes) {
    const Dims &x = shapes.inputs[0].dims, &grid = shapes.inputs[1].dims;
    const size_t spatial = x.size() - 2;
    require_equal(grid[0], x[0], "the batch of grid_sample's grid");
    require_equal(grid.back(), static_cast<int64_t>(spatial), "the last axis of grid_sample's grid");
    const int64_t points = element_count(Dims(grid.begin() + 1, grid.end() - 1));
    const int64_t groups = divide_up(x[1], group_channels), items = x[0] * groups * points;
    check_elements(element_count(shapes.outputs[0].dims), "a sampled image");
    GridSampleParameters p;
    for (size_t a = spatial; a-- > 0; p.plane *= x[2 + a]) {
      p.size[a] = x[2 + a];
      p.stride[a] = p.plane;
    }
    if (items > 0 && p.plane == 0)
      throw Error(ErrorCode::invalid_argument, fmt::format("an image of shape {} has nothing to sample", to_string(x)));
    p.items = narrow(items);
    p.channels = narrow(x[1]);
    p.points = Divisor(narrow(std::max<int64_t>(points, 1)));
    p.groups = Divisor(narrow(std::max<int64_t>(groups, 1)));
    return function_launch([p, &function = loaded.function](const LaunchArguments& a, Queue& queue) mutable {
      if (p.items == 0) return;
      const std::byte *image = a.inputs[0], *positions = a.inputs[1];
      std::byte* out = a.outputs[0];
      void* const arguments[] = {&p, &image, &positions, &out};
      function.launch(queue.stream(), {.blocks = blocks_for(p.items, threads_a_block), .threads = threads_a_block},
                      arguments);
    });
  });
}

// ---- col2im

std::optional<Dims> kernel_of(const RegionView& region) {
  const Tensor* kernel = region.constant(2);
  if (!kernel || kernel->size() != 2) return std::nullopt;
  return kernel->to_ints();
}

std::optional<double> estimate_col2im(const RegionView& region, const DeviceFacts&) {
  const auto* op = region.node.op.as<ops::Col2Im>();
  if (!op || op->strides.size() != 2 || !is_sampled(region.graph.type(region.node.inputs[0]).dtype))
    return std::nullopt;
  const auto kernel = kernel_of(region);
  if (!kernel) return std::nullopt;
  constexpr int64_t most = 1 << 14;  // positions are counted in 32 bits
  for (const auto* list : {&*kernel, &op->strides, &op->dilations})
    for (const int64_t n : *list)
      if (n < 1 || n > most) return std::nullopt;
  // Where only running tells the image's size, the result is dynamic.
  const ValueId image = region.node.inputs[1];
  if (!region.graph.is_constant(image) && !region.graph.value(image).content) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_col2im(const RegionView& region, const Workshop& workshop) {
  const DType dtype = region.graph.type(region.node.inputs[0]).dtype;
  return device_kernel(
      [op = *region.node.op.as<ops::Col2Im>(), kernel = *kernel_of(region),
       loaded = SamplingFunction(workshop, "col2im", col2im_text(dtype))](const KernelShapes& shapes) {
        const Dims &x = shapes.inputs[0].dims, &y = shapes.outputs[0].dims;
        const int64_t total = element_count(y);
        check_elements(total, "an image");
        Col2ImParameters p;
        int64_t windows = 1;
        for (size_t i = 0; i < 2; ++i) {
          const int64_t before = ops::evaluate_pad(op.pads[i], *shapes.symbols);
          const int64_t room = y[2 + i] + before + ops::evaluate_pad(op.pads[2 + i], *shapes.symbols) -
                               (kernel[i] - 1) * op.dilations[i] - 1;
          const int64_t count = room < 0 ? 0 : room / op.strides[i] + 1;
          constexpr int64_t most = int64_t{1} << 29;
          if (std::max(y[2 + i], count) > most || before > most || before < -most)
            throw Error(ErrorCode::unsupported,
                        fmt::format("an image of shape {} is too large for the GPU's col2im, which "
                                    "counts to 2^29 along an axis",
                                    to_string(y)));
          p.windows[i] = static_cast<int32_t>(count);
          p.kernel[i] = static_cast<int32_t>(kernel[i]);
          p.stride[i] = static_cast<int32_t>(op.strides[i]);
          p.dilation[i] = static_cast<int32_t>(op.dilations[i]);
          p.before[i] = static_cast<int32_t>(before);
          windows *= count;
        }
        require_equal(x[1], y[1] * kernel[0] * kernel[1], "the number of elements of col2im's windows");
        require_equal(x[2], windows, "the number of col2im's windows");
        p.pixels = narrow(total);
        p.height = Divisor(narrow(std::max<int64_t>(y[2], 1)));
        p.width = Divisor(narrow(std::max<int64_t>(y[3], 1)));
        const bool is_empty = element_count(x) == 0;
        return function_launch([=, &function = loaded.function](const LaunchArguments& a, Queue& queue) mutable {
          if (total == 0) return;
          const std::byte* columns = is_empty ? nullptr : a.inputs[0];  // then it has no memory on the device
          std::byte* out = a.outputs[0];
          void* const arguments[] = {&p, &columns, &out};
          function.launch(queue.stream(), {.blocks = blocks_for(total, threads_a_block), .threads = threads_a_block},
                          arguments);
        });
      },
      OperandUse{.read_inputs = 1});
}

}  // namespace

const CudaTactic grid_sample_tactic{"cuda_grid_sample", estimate_grid_sample, compile_grid_sample};
const CudaTactic col2im_tactic{"cuda_col2im", estimate_col2im, compile_col2im};

}  // namespace camshaft::cuda
