// Matrix products of f64 and of integers of 32 and 64 bits: the loops of the reference evaluation, in the plan's memory
// and with the pointwise operators behind them in place. Through the reference itself 390 products of 16 x 16 took 354
// us, of which 60 are the products: the others were its new memory.
#include <algorithm>

#include "backends/cpu/kernels/pointwise/pointwise.h"
#include "backends/cpu/tactics/matmul.h"
#include "backends/cpu/tactics/pointwise.h"
#include "compile/plan/shape_check.h"
#include "compile/region/contract_view.h"
#include "compile/region/pointwise_view.h"
#include "ir/ops/contract.h"
#include "reference/contract/plain_product.h"

namespace camshaft::cpu {

namespace {

struct PlainMatMulView {
  ops::MatMul op;
  DType dtype;
  size_t a = 0, b = 0;                  ///< region inputs
  std::optional<PointwiseView> behind;  ///< whose load of the product is the input behind the last
};

std::optional<PlainMatMulView> view_plain_matmul(const RegionView& region) {
  const auto contract = view_contract(region);
  if (!contract) return std::nullopt;
  const auto* op = contract->anchor->op.as<ops::MatMul>();
  const DType dtype = contract->result.dtype;
  if (!op || !ops::has_plain_product(dtype) || region.node.outputs.size() != 1) return std::nullopt;
  PlainMatMulView view{*op, dtype, static_cast<size_t>(contract->anchor_inputs[0]),
                       static_cast<size_t>(contract->anchor_inputs[1]), std::nullopt};
  for (const size_t operand : {view.a, view.b})
    if (region.graph.type(region.node.inputs[operand]).dtype != dtype) return std::nullopt;
  if (!contract->epilogue) return view;
  const TensorType& result = region.graph.type(region.node.outputs[0]);
  if (result != contract->result || contract->epilogue->outputs.size() != 1 || !has_loops(*contract->epilogue))
    return std::nullopt;
  view.behind.emplace();
  view.behind->program = *contract->epilogue;
  for (const int32_t load : contract->epilogue_loads)
    view.behind->loads.push_back(load < 0 ? static_cast<int32_t>(region.node.inputs.size()) : load);
  view.behind->permutations.resize(view.behind->loads.size());
  return view;
}

class PlainMatMulLaunch final : public Launch {
 public:
  PlainMatMulLaunch(const PlainMatMulView& view, const KernelShapes& shapes)
      : view_(view),
        stack_(ops::product_stack(view.op, shapes.inputs[view.a].dims, shapes.inputs[view.b].dims)),
        workspace_(ops::plain_product_bytes(stack_, view.dtype, shapes.threads)) {
    require_equal(element_count(stack_.dims), element_count(shapes.outputs[0].dims), "the size of matmul's result");
    if (!view.behind) return;
    KernelShapes behind = shapes;
    behind.inputs.push_back({shapes.outputs[0].dtype, shapes.outputs[0].dims});
    const PointwiseStrides strides = pointwise_strides(*view.behind, behind);
    behind_.emplace(view.behind->program, shapes.outputs[0].dims, strides.loads, strides.outputs);
    loads_.resize(view.behind->loads.size());
  }

  size_t workspace_bytes() const override { return workspace_; }

  void run(const LaunchArguments& a) override {
    ops::plain_product(stack_, view_.dtype, a.inputs[view_.a], a.inputs[view_.b], a.outputs[0], a.pool, a.workspace);
    if (!behind_) return;
    for (size_t k = 0; k < loads_.size(); ++k) {
      const auto load = static_cast<size_t>(view_.behind->loads[k]);
      loads_[k] = load < a.inputs.size() ? a.inputs[load] : a.outputs[0];
    }
    void* out = a.outputs[0];
    behind_->run(a.pool, loads_.data(), &out);
  }

 private:
  const PlainMatMulView& view_;
  ops::ProductStack stack_;
  size_t workspace_;
  std::optional<Pointwise> behind_;
  std::vector<const void*> loads_;
};

class PlainMatMulKernel final : public Kernel {
 public:
  explicit PlainMatMulKernel(PlainMatMulView view) : view_(std::move(view)) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<PlainMatMulLaunch>(view_, shapes);
  }

 private:
  PlainMatMulView view_;
};

std::optional<double> estimate_plain_matmul(const RegionView& region) {
  const auto view = view_plain_matmul(region);
  if (!view) return std::nullopt;
  const Shape& a = region.graph.shape(region.node.inputs[view->a]);
  const double depth = size_at_optimum(region, a[a.size() - (view->op.transpose_a ? 2 : 1)]);
  const double products = elements_at_optimum(region, region.node.outputs[0]) * depth;
  return seconds_per_launch + std::max(4 * products * seconds_per_flop, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_plain_matmul(const RegionView& region, PackedConstants&) {
  return std::make_shared<PlainMatMulKernel>(*view_plain_matmul(region));
}

}  // namespace

const CpuTactic plain_matmul_tactic{"plain_matmul", estimate_plain_matmul, compile_plain_matmul};

}  // namespace camshaft::cpu
