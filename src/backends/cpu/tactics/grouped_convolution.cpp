#include "backends/cpu/tactics/grouped_convolution.h"

#include <algorithm>

#include "backends/cpu/kernels/conv/grouped_conv.h"
#include "backends/cpu/tactics/conv_kernel.h"
#include "compile/constants/layout_text.h"

namespace camshaft::cpu {

namespace {

GroupedWeights grouped_weights_of(const ConvView& view) {
  const Dims& d = view.spatial.weight_dims;
  return grouped_weights(d[0], d[1], view.spatial.kernel_d() * view.spatial.kernel_h(), view.spatial.kernel_w(),
                         view.op.groups);
}

constexpr auto grouped_numbers = [](auto& weights, auto&& number) {
  number("grouped_conv o=", weights.out_channels);
  number(" c=", weights.group_channels);
  number(" lines=", weights.lines);
  number(" w=", weights.kernel_w);
  number(" groups=", weights.groups);
  number(" lanes=", weights.lanes);
};

class GroupedProblem {
 public:
  static constexpr bool takes_slices = true;

  GroupedProblem(const ConvView& view, const KernelShapes& shapes)
      : weights_(grouped_weights_of(view)), shape_(conv_shape(view, shapes)) {}
  int64_t workspace_bytes(int threads) const { return grouped_conv_workspace_bytes(weights_, shape_, threads); }
  int64_t packed_floats() const { return weights_.floats(); }
  void pack(const float* weights, float* packed, ThreadPool& pool) const {
    pack_grouped_weights(weights_, weights, packed, pool);
  }
  void run(const float* x, const float* packed, float* y, const Epilogue& epilogue, ThreadPool& pool,
           std::byte* workspace) const {
    grouped_conv(weights_, shape_, x, packed, y, epilogue, pool, workspace);
  }

 private:
  GroupedWeights weights_;
  ConvShape shape_;
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
  const GroupedWeights w = grouped_weights_of(*view);
  const double lanes = static_cast<double>(w.units() * w.vectors() * w.lanes);
  const double waste = lanes / static_cast<double>(w.out_channels);
  const double elements = elements_at_optimum(region, region.node.outputs[0]) +
                          elements_at_optimum(region, region.node.inputs[static_cast<size_t>(view->spatial.x)]);
  const double work = conv_flops(region, *view) * waste * 1.05 * seconds_per_flop + elements * seconds_per_copied;
  return seconds_per_launch + std::max(work, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_grouped_conv(const RegionView& region, PackedConstants& constants) {
  ConvView view = *view_conv(region);
  if (!view.spatial.constant_weights) return std::make_shared<ConvKernel<GroupedProblem>>(std::move(view), nullptr);
  const Value& w = region.graph.value(region.node.inputs[static_cast<size_t>(view.spatial.weights)]);
  const GroupedWeights weights = grouped_weights_of(view);
  const auto bytes =
      constants.get(w.name, layout_text(grouped_numbers, weights), *w.constant,
                    static_cast<size_t>(weights.floats()) * sizeof(float), [&](const Tensor& raw, std::byte* out) {
                      pack_grouped_weights(weights, raw.as<float>(), reinterpret_cast<float*>(out));
                    });
  return std::make_shared<ConvKernel<GroupedProblem>>(std::move(view), reinterpret_cast<const float*>(bytes.data()));
}

}  // namespace

const CpuTactic grouped_conv_tactic{"grouped_conv", estimate_grouped_conv, compile_grouped_conv};

Tensor unpack_grouped_conv(const PackedConstant& packed, DType dtype, const Dims& dims) {
  GroupedWeights w;
  if (!read_layout_text(packed.layout, grouped_numbers, w)) return {};
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
