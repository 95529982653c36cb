#include "cpu/grouped_convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cpu/conv_view.h"
#include "cpu/kernels/grouped_conv.h"

namespace camshaft::cpu {

namespace {

GroupedWeights weights_of(const ConvView& view) {
  const Dims& d = view.spatial.weight_dims;
  return grouped_weights(d[0], d[1], view.spatial.kernel_d() * view.spatial.kernel_h(), view.spatial.kernel_w(),
                         view.op.groups);
}

class GroupedConvLaunch final : public Launch {
 public:
  /// Without `packed` the weights are packed in each run.
  GroupedConvLaunch(const ConvView& view, const float* packed, const KernelShapes& shapes)
      : x_(static_cast<size_t>(view.spatial.x)),
        weights_(static_cast<size_t>(view.spatial.weights)),
        packed_(packed),
        threads_(shapes.threads),
        layout_(weights_of(view)),
        shape_(conv_shape(view, shapes)),
        epilogue_(view.spatial.epilogue, shapes, shapes.outputs[0].dims.back()) {}
  size_t workspace_bytes() const override {
    return packing_bytes() + static_cast<size_t>(grouped_conv_workspace_bytes(layout_, shape_, threads_));
  }
  void run(const LaunchArguments& arguments) override {
    const float* packed = packed_;
    if (!packed) {
      auto* to = reinterpret_cast<float*>(arguments.workspace);
      pack_grouped_weights(layout_, reinterpret_cast<const float*>(arguments.inputs[weights_]), to, arguments.pool);
      packed = to;
    }
    auto* y = reinterpret_cast<float*>(arguments.outputs[0]);
    grouped_conv(layout_, shape_, reinterpret_cast<const float*>(arguments.inputs[x_]), packed, y,
                 epilogue_.bind(arguments, y), arguments.pool, arguments.workspace + packing_bytes());
  }

 private:
  size_t packing_bytes() const {
    return packed_ ? 0 : (static_cast<size_t>(layout_.floats()) * sizeof(float) + 63) / 64 * 64;
  }

  size_t x_, weights_;
  const float* packed_;
  int threads_;
  GroupedWeights layout_;
  ConvShape shape_;
  BoundEpilogue epilogue_;
};

// The copied lines are as long as the outputs' windows, with what strides leave out.
bool has_usual_steps(const ConvView& view) {
  const auto small = [](int64_t step) { return step <= 64; };
  return std::all_of(view.op.strides.begin(), view.op.strides.end(), small) &&
         std::all_of(view.op.dilations.begin(), view.op.dilations.end(), small);
}

// A tenth of a nanosecond an element on a Zen 5 core, where a product runs at 245 GFLOP/s.
constexpr double seconds_per_copied = 2.5e-10;

std::optional<double> estimate_grouped_conv(const RegionView& region) {
  const auto view = view_conv(region);
  if (!view || view->op.groups == 1 || !has_usual_steps(*view)) return std::nullopt;
  const GroupedWeights w = weights_of(*view);
  const double lanes = static_cast<double>(w.units() * w.vectors() * w.lanes);
  const double waste = lanes / static_cast<double>(w.out_channels);
  const double elements = elements_at_optimum(region, region.node.outputs[0]) +
                          elements_at_optimum(region, region.node.inputs[static_cast<size_t>(view->spatial.x)]);
  const double work = conv_flops(region, *view) * waste * 1.05 * seconds_per_flop + elements * seconds_per_copied;
  return seconds_per_launch + std::max(work, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_grouped_conv(const RegionView& region, PackedConstants& constants) {
  ConvView view = *view_conv(region);
  if (!view.spatial.constant_weights) return std::make_shared<ConvKernel<GroupedConvLaunch>>(std::move(view), nullptr);
  const Value& w = region.graph.value(region.node.inputs[static_cast<size_t>(view.spatial.weights)]);
  const GroupedWeights weights = weights_of(view);
  const std::string layout =
      fmt::format("grouped_conv o={} c={} lines={} w={} groups={} lanes={}", weights.out_channels,
                  weights.group_channels, weights.lines, weights.kernel_w, weights.groups, weights.lanes);
  const auto bytes = constants.get(w.name, layout, *w.constant, static_cast<size_t>(weights.floats()) * sizeof(float),
                                   [&](const Tensor& raw, std::byte* out) {
                                     pack_grouped_weights(weights, raw.as<float>(), reinterpret_cast<float*>(out));
                                   });
  return std::make_shared<ConvKernel<GroupedConvLaunch>>(std::move(view), reinterpret_cast<const float*>(bytes.data()));
}

}  // namespace

const CpuTactic grouped_conv_tactic{"grouped_conv", estimate_grouped_conv, compile_grouped_conv};

Tensor unpack_grouped_conv(const PackedConstant& packed, DType dtype, const Dims& dims) {
  GroupedWeights w;
  if (std::sscanf(packed.layout.c_str(), "grouped_conv o=%ld c=%ld lines=%ld w=%ld groups=%ld lanes=%d",
                  &w.out_channels, &w.group_channels, &w.lines, &w.kernel_w, &w.groups, &w.lanes) != 6)
    return {};
  int64_t lines = 1;
  for (size_t i = 2; i + 1 < dims.size(); ++i) lines *= dims[i];
  const bool fits = dtype == DType::f32 && dims.size() >= 3 && dims.size() <= 5 && w.out_channels == dims[0] &&
                    w.group_channels == dims[1] && w.lines == lines && w.kernel_w == dims.back() && w.groups > 0 &&
                    w.out_channels > 0 && w.out_channels % w.groups == 0 && w.lanes > 0 && w.lanes <= 64;
  if (!fits || packed.bytes.size() != static_cast<size_t>(w.floats()) * sizeof(float)) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  unpack_grouped_weights(w, reinterpret_cast<const float*>(packed.bytes.data()), raw.as_mutable<float>());
  return raw;
}

}  // namespace camshaft::cpu
