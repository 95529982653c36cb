#include "backends/cpu/tactics/weight_only_matmul.h"

#include <algorithm>

#include "backends/cpu/kernels/gemm/narrow_gemm.h"
#include "backends/cpu/kernels/gemm/narrow_rounded.h"
#include "backends/cpu/tactics/contract_epilogue.h"
#include "backends/cpu/tactics/weight_only_weights.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/quantized.h"
#include "ir/ops/weight_only.h"
#include "reference/element_io.h"

namespace camshaft::cpu {

namespace {

struct WeightOnlyView {
  ContractView contract;
  ContractEpilogue epilogue;
  ops::WeightOnlyMatMul op;
  int32_t x = -1, steps = -1, scale = -1, zero = -1;  // region inputs
};

std::optional<WeightOnlyView> view_weight_only(const RegionView& region) {
  std::optional<ContractView> contract = view_contract(region);
  if (!contract) return std::nullopt;
  const auto* op = contract->anchor->op.as<ops::WeightOnlyMatMul>();
  if (!op) return std::nullopt;
  std::optional<ContractEpilogue> epilogue = ContractEpilogue::make(region, *contract, -1, {1 + kMoreResiduals});
  if (!epilogue) return std::nullopt;
  WeightOnlyView view{std::move(*contract), std::move(*epilogue), *op};
  std::vector<int32_t> inputs = view.contract.anchor_inputs;
  inputs.resize(4, -1);
  view.x = inputs[0], view.steps = inputs[1], view.scale = inputs[2], view.zero = inputs[3];
  // Scales are f32 or f16.
  if (region.graph.type(region.node.inputs[static_cast<size_t>(view.x)]).dtype != DType::f32) return std::nullopt;
  for (const int32_t i : {view.steps, view.scale, view.zero})
    if (i >= 0 && !region.graph.is_constant(region.node.inputs[static_cast<size_t>(i)])) return std::nullopt;
  const TensorType& steps = region.graph.type(region.node.inputs[static_cast<size_t>(view.steps)]);
  const int64_t k = steps.shape[op->transposed ? 1 : 0].value(), in_word = 32 / bit_width(steps.dtype);
  const bool has_whole_words = op->block % in_word == 0 || op->block >= k;
  // Products of bytes take whole vectors of 16 of them.
  const bool has_whole_segments = op->block % 16 == 0 || op->block >= k;
  static_assert(kHighestStep == ops::RoundBlocks::highest && kLeastLargest == ops::RoundBlocks::least);
  if (op->rounded_block != 0 && (op->rounded_block != kRoundedBlock || !has_whole_segments)) return std::nullopt;
  return k > 0 && has_whole_words ? std::optional(std::move(view)) : std::nullopt;
}

class WeightOnlyLaunch final : public Launch {
 public:
  WeightOnlyLaunch(const WeightOnlyView& view, const PackedWeightOnly& weights, const KernelShapes& shapes)
      : view_(view),
        weights_(weights),
        threads_(shapes.threads),
        epilogue_(view.epilogue, shapes, weights.layout.words.n) {
    const OperandShape& x = shapes.inputs[static_cast<size_t>(view.x)];
    require_equal(x.dims.back(), weights.layout.k, "the size that a product sums over");
    args_.m = element_count(Dims(x.dims.begin(), x.dims.end() - 1));
    args_.lda = x.pitch();
    args_.rounded = view.op.rounded_block != 0;
    args_.weights = &weights_.layout;
    args_.packed = weights_.steps;
    args_.scales = weights_.scales;
    args_.half_scales = weights_.half_scales;
    args_.zeros.bytes = weights_.zero_bytes;
    args_.zeros.floats = weights_.zero_floats;
    args_.ldc = shapes.outputs[0].pitch();
    if (view.zero >= 0) zero_dtype_ = shapes.inputs[static_cast<size_t>(view.zero)].dtype;
  }
  size_t workspace_bytes() const override {
    return static_cast<size_t>(narrow_gemm_workspace_bytes(weights_.layout, args_.m, threads_, args_.rounded));
  }
  void run(const LaunchArguments& arguments) override {
    args_.a = reinterpret_cast<const float*>(arguments.inputs[static_cast<size_t>(view_.x)]);
    args_.c = reinterpret_cast<float*>(arguments.outputs[0]);
    double zero = 0;
    if (weights_.reads_zero)
      ops::load_elements(zero_dtype_, arguments.inputs[static_cast<size_t>(view_.zero)], 0, 1, 1, &zero);
    args_.zeros.all = static_cast<float>(zero) + weights_.code_of_zero;
    args_.epilogue = epilogue_.bind(arguments, args_.c);
    narrow_gemm(args_, arguments.pool, arguments.workspace);
  }

 private:
  const WeightOnlyView& view_;
  const PackedWeightOnly& weights_;
  int threads_;
  BoundEpilogue epilogue_;
  DType zero_dtype_ = DType::f32;
  NarrowGemm args_;
};

class WeightOnlyKernel final : public Kernel {
 public:
  WeightOnlyKernel(WeightOnlyView view, const PackedWeightOnly& weights) : view_(std::move(view)), weights_(weights) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<WeightOnlyLaunch>(view_, weights_, shapes);
  }
  bool can_run_in_place(size_t i, size_t) const override { return view_.epilogue.can_overwrite(i); }
  bool reads_slices(size_t i) const override { return view_.epilogue.reads_slices(i); }
  bool writes_slices(size_t) const override { return true; }
  bool reads_input(size_t i) const override {
    const auto input = static_cast<int32_t>(i);
    const bool is_packed =
        input == view_.steps || input == view_.scale || (input == view_.zero && !weights_.reads_zero);
    return !is_packed || view_.epilogue.reads(i);
  }

 private:
  WeightOnlyView view_;
  PackedWeightOnly weights_;
};

std::optional<double> estimate_weight_only(const RegionView& region) {
  const auto view = view_weight_only(region);
  if (!view) return std::nullopt;
  const Shape& x = region.graph.shape(region.node.inputs[static_cast<size_t>(view->x)]);
  const double flops = 2 * elements_at_optimum(region, region.node.outputs[0]) * size_at_optimum(region, x.back());
  return seconds_per_launch + std::max(flops * seconds_per_flop, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_weight_only(const RegionView& region, PackedConstants& constants) {
  WeightOnlyView view = *view_weight_only(region);
  const WeightOnlyOperands operands{view.steps, view.scale, view.zero, view.op.block, view.op.transposed};
  const PackedWeightOnly weights = packed_weight_only(region, operands, constants);
  return std::make_shared<WeightOnlyKernel>(std::move(view), weights);
}

}  // namespace

const CpuTactic weight_only_matmul_tactic{"weight_only_matmul", estimate_weight_only, compile_weight_only};

}  // namespace camshaft::cpu
