#include "backends/cpu/tactics/col2im.h"

#include <array>

#include "backends/cpu/kernels/conv/col2im.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "backends/cpu/tactics/spatial_view.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/window_ops.h"

namespace camshaft::cpu {

namespace {

std::optional<Dims> kernel_of(const RegionView& region) {
  const Tensor* kernel = region.constant(2);
  if (!kernel) return std::nullopt;
  return kernel->to_ints();
}

std::optional<double> estimate_col2im(const RegionView& region) {
  const auto* op = region.node.op.as<ops::Col2Im>();
  if (!op || op->strides.size() != 2 || region.graph.type(region.node.inputs[0]).dtype != DType::f32)
    return std::nullopt;
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

const CpuTactic col2im_tactic{"col2im", estimate_col2im, compile_col2im};

}  // namespace camshaft::cpu
