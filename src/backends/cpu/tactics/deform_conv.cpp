#include "backends/cpu/tactics/deform_conv.h"

#include <fmt/format.h>

#include <limits>

#include "backends/cpu/kernels/window/deform_conv.h"
#include "backends/cpu/kernels/window/deform_taps.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "backends/cpu/tactics/spatial_view.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/sample.h"

namespace camshaft::cpu {

namespace {

// The operands behind the weights: offsets, and where they are there the bias and the mask.
constexpr size_t offsets_at = 2, bias_at = 3, mask_at = 4;

std::optional<double> estimate_deform_conv(const RegionView& region) {
  if (!region.node.op.as<ops::DeformConv>()) return std::nullopt;
  for (const ValueId id : region.node.inputs)
    if (id != no_value && region.graph.type(id).dtype != DType::f32) return std::nullopt;
  for (const size_t i : {size_t{0}, size_t{1}})
    if (region.graph.shape(region.node.inputs[i]).size() != 4) return std::nullopt;
  return seconds_per_launch + 10 * bytes_at_optimum(region) * seconds_per_byte;
}

DeformConvolution problem_of(const ops::DeformConv& op, const KernelShapes& shapes) {
  const Dims &x = shapes.inputs[0].dims, &w = shapes.inputs[1].dims, &y = shapes.outputs[0].dims;
  DeformConvolution s;
  s.batch = x[0];
  s.in_channels = x[1], s.in_h = x[2], s.in_w = x[3];
  s.out_channels = y[1], s.out_h = y[2], s.out_w = y[3];
  s.kernel_h = w[2], s.kernel_w = w[3];
  s.stride_h = op.strides[0], s.stride_w = op.strides[1];
  s.dilation_h = op.dilations[0], s.dilation_w = op.dilations[1];
  const std::array<int64_t, 4> pads = pads_of(op.pads, *shapes.symbols);
  s.pad_top = pads[0], s.pad_left = pads[1];
  s.groups = op.groups;
  s.offset_groups = op.offset_groups;
  if (s.in_h >= deform_bound || s.in_w >= deform_bound || s.in_h * s.in_w > std::numeric_limits<int32_t>::max())
    throw Error(ErrorCode::unsupported, fmt::format("an image of shape {} is too large to be sampled", to_string(x)));
  if (s.in_channels != w[1] * s.groups || s.out_channels % s.groups != 0 || s.in_channels % s.offset_groups != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("deform_conv: {} channels and {} outputs in {} groups and {} offset groups", s.in_channels,
                            s.out_channels, s.groups, s.offset_groups));
  const auto expect = [&](size_t i, const Dims& dims, const char* what) {
    if (i < shapes.inputs.size() && !shapes.inputs[i].dims.empty() && shapes.inputs[i].dims != dims)
      throw Error(ErrorCode::invalid_argument, fmt::format("deform_conv: {} has the shape {}, expected {}", what,
                                                           to_string(shapes.inputs[i].dims), to_string(dims)));
  };
  const int64_t taps = s.offset_groups * s.kernel_h * s.kernel_w;
  expect(offsets_at, {s.batch, 2 * taps, s.out_h, s.out_w}, "the offset");
  expect(bias_at, {s.out_channels}, "the bias");
  expect(mask_at, {s.batch, taps, s.out_h, s.out_w}, "the mask");
  return s;
}

class DeformLaunch final : public Launch {
 public:
  DeformLaunch(const DeformConvolution& problem, int threads) : problem_(problem), threads_(threads) {}
  size_t workspace_bytes() const override { return problem_.workspace_bytes(threads_); }
  void run(const LaunchArguments& a) override {
    problem_.run({.x = input<float>(a, 0),
                  .weights = input<float>(a, 1),
                  .offsets = input<float>(a, offsets_at),
                  .bias = input<float>(a, bias_at),
                  .mask = input<float>(a, mask_at),
                  .y = output<float>(a, 0)},
                 a.pool, a.workspace);
  }

 private:
  DeformConvolution problem_;
  int threads_;
};

class DeformKernel final : public Kernel {
 public:
  explicit DeformKernel(ops::DeformConv op) : op_(std::move(op)) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<DeformLaunch>(problem_of(op_, shapes), shapes.threads);
  }

 private:
  ops::DeformConv op_;
};

std::shared_ptr<const Kernel> compile_deform_conv(const RegionView& region, PackedConstants&) {
  return std::make_shared<DeformKernel>(*region.node.op.as<ops::DeformConv>());
}

}  // namespace

const CpuTactic deform_conv_tactic{"deform_conv", estimate_deform_conv, compile_deform_conv};

}  // namespace camshaft::cpu
