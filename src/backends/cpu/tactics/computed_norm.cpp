#include "backends/cpu/tactics/computed_norm.h"

#include <algorithm>

#include "backends/cpu/kernels/pointwise/pointwise.h"
#include "backends/cpu/kernels/reduce/normalize.h"
#include "backends/cpu/tactics/normalize.h"
#include "backends/cpu/tactics/pointwise.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "base/divide_up.h"
#include "base/pieces.h"
#include "compile/region/pointwise_view.h"
#include "ir/ops/reduce.h"
#include "ir/ops/region.h"
#include "ir/region.h"

namespace camshaft::cpu {

namespace {

/// A chain of pointwise operators and the norm of their result (passes/chain_norms.h).
struct ComputedNormView {
  PointwiseView computed;
  std::vector<int32_t> loads;  ///< the chain's input that each load of the program reads
  ops::LayerNorm op;
  int32_t scale = -1, bias = -1;  ///< inputs of the chain, or -1
};

std::optional<ComputedNormView> view_computed_norm(const RegionView& region) {
  const Node& node = region.node;
  if (!node.op.as<ops::Region>() || node.bodies.size() != 1 || node.outputs.size() != 1) return std::nullopt;
  const Graph& body = node.bodies[0];
  if (body.nodes.size() != 2 || !body.nodes[1].op.as<ops::LayerNorm>()) return std::nullopt;
  const Node &part = body.nodes[0], &norm = body.nodes[1];
  const RegionView part_view{body, part, region.symbols, region.threads};
  if (part.outputs.size() != 1 || norm.inputs[0] != part.outputs[0] || body.outputs[0] != norm.outputs[0] ||
      body.type(norm.inputs[0]).dtype != DType::f32 || pointwise_tactic.offers(part_view).empty() ||
      layer_norm_tactic.offers({body, norm, region.symbols, region.threads}).empty())
    return std::nullopt;
  auto computed = view_pointwise(part_view);
  if (!computed) return std::nullopt;
  ComputedNormView view{std::move(*computed), {}, *norm.op.as<ops::LayerNorm>()};
  for (const int32_t load : view.computed.loads)
    view.loads.push_back(input_index(body, part.inputs[static_cast<size_t>(load)]));
  const auto is_given = [&](size_t i) { return i < norm.inputs.size() && norm.inputs[i] != no_value; };
  if (is_given(1)) view.scale = input_index(body, norm.inputs[1]);
  if (is_given(2)) view.bias = input_index(body, norm.inputs[2]);
  const bool known = std::ranges::all_of(view.loads, [](int32_t i) { return i >= 0; }) &&
                     is_given(1) == (view.scale >= 0) && is_given(2) == (view.bias >= 0);
  return known ? std::optional(std::move(view)) : std::nullopt;
}

class ComputedNormLaunch final : public Launch {
 public:
  ComputedNormLaunch(const ComputedNormView& view, const KernelShapes& shapes)
      : view_(view), inputs_(view.loads.size()), computed_(pointwise_of(view, shapes)) {
    const Dims& dims = shapes.outputs[0].dims;
    for (size_t d = 0; d < dims.size(); ++d) (static_cast<int64_t>(d) < view.op.axis ? rows_ : length_) *= dims[d];
  }

  void run(const LaunchArguments& a) override {
    if (rows_ == 0 || length_ == 0) return;
    for (size_t k = 0; k < inputs_.size(); ++k) inputs_[k] = a.inputs[static_cast<size_t>(view_.loads[k])];
    const auto parameter = [&](int32_t i) { return i < 0 ? nullptr : input<float>(a, static_cast<size_t>(i)); };
    const float *scale = parameter(view_.scale), *bias = parameter(view_.bias);
    // Rows are normalised while they are in L1.
    constexpr int64_t block = 4 * 1024, least_elements = 16 * 1024;
    const int64_t at_once = std::max<int64_t>(1, block / length_);
    for_pieces(a.pool, rows_, divide_up(least_elements, length_), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r += at_once) {
        const int64_t rows = std::min(at_once, end - r);
        float* const y = output<float>(a, 0) + r * length_;
        void* const results[1] = {y};
        computed_.run_range(r * length_, rows * length_, inputs_.data(), results);
        normalise(rows, scale, bias, y);
      }
    });
  }

 private:
  static Pointwise pointwise_of(const ComputedNormView& view, const KernelShapes& shapes) {
    PointwiseView of_chain = view.computed;
    of_chain.loads = view.loads;
    const PointwiseStrides strides = pointwise_strides(of_chain, shapes);
    return {view.computed.program, shapes.outputs[0].dims, strides.loads, strides.outputs};
  }

  void normalise(int64_t rows, const float* scale, const float* bias, float* y) const {
    const auto epsilon = static_cast<float>(view_.op.epsilon), added = view_.op.clamped ? 0 : epsilon;
    if (view_.op.root_mean_square)
      RmsNorm{rows, length_, added, view_.op.clamped ? epsilon : 0}.run_here(y, scale, y);
    else
      LayerNorm{rows, length_, epsilon}.run_here(y, scale, bias, y);
  }

  const ComputedNormView& view_;
  std::vector<const void*> inputs_;
  Pointwise computed_;
  int64_t rows_ = 1, length_ = 1;
};

class ComputedNormKernel final : public Kernel {
 public:
  explicit ComputedNormKernel(ComputedNormView view) : view_(std::move(view)) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<ComputedNormLaunch>(view_, shapes);
  }
  bool reads_slices(size_t i) const override { return !is_parameter(i); }
  // Blocks are computed one after the other, each from the same elements of what it overwrites.
  bool can_run_in_place(size_t i, size_t) const override { return !is_parameter(i); }

 private:
  bool is_parameter(size_t i) const {
    return static_cast<int32_t>(i) == view_.scale || static_cast<int32_t>(i) == view_.bias;
  }

  ComputedNormView view_;
};

std::optional<double> estimate_computed_norm(const RegionView& region) {
  if (!view_computed_norm(region)) return std::nullopt;
  const Node &part = region.node.bodies[0].nodes[0], &norm = region.node.bodies[0].nodes[1];
  const Graph& body = region.node.bodies[0];
  const auto seconds = [&](const CpuTactic& tactic, const Node& node) {
    return tactic.offers({body, node, region.symbols, region.threads})[0].seconds;
  };
  // What lies between them is neither written nor read.
  const double between = elements_at_optimum({body, part, region.symbols, region.threads}, part.outputs[0]) * 4;
  const double both = seconds(pointwise_tactic, part) + seconds(layer_norm_tactic, norm) - seconds_per_launch;
  return std::max(seconds_per_launch, both - 2 * between * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_computed_norm(const RegionView& region, PackedConstants&) {
  return std::make_shared<ComputedNormKernel>(*view_computed_norm(region));
}

}  // namespace

const CpuTactic computed_norm_tactic{"computed_norm", estimate_computed_norm, compile_computed_norm};

}  // namespace camshaft::cpu
