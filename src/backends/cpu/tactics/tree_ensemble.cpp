#include "backends/cpu/tactics/tree_ensemble.h"

#include "reference/ml/tree_ensemble.h"

namespace camshaft::cpu {

namespace {

using ops::TreeEnsemble;

class TreeEnsembleLaunch final : public Launch {
 public:
  TreeEnsembleLaunch(const TreeEnsemble& op, const ops::TreeLayout& layout, const KernelShapes& shapes)
      : op_(op), layout_(layout), sizes_(sizes_of(shapes)), bytes_(tree_workspace_bytes(op, sizes_, shapes.threads)) {}
  size_t workspace_bytes() const override { return bytes_; }
  void run(const LaunchArguments& a) override {
    const bool has_classes = op_.task != ops::TreeTask::regression;
    run_trees(op_, sizes_, layout_, a.inputs,
              {has_classes ? reinterpret_cast<int64_t*>(a.outputs[0]) : nullptr, a.outputs[has_classes ? 1 : 0]},
              a.pool, a.workspace);
  }

 private:
  static ops::TreeSizes sizes_of(const KernelShapes& shapes) {
    std::vector<Dims> dims;
    for (const OperandShape& input : shapes.inputs) dims.push_back(input.dims);
    return ops::tree_sizes(shapes.inputs[TreeEnsemble::x_in].dtype, shapes.inputs[TreeEnsemble::threshold_in].dtype,
                           dims);
  }

  const TreeEnsemble& op_;
  const ops::TreeLayout& layout_;
  ops::TreeSizes sizes_;
  size_t bytes_;
};

// The trees are laid out when it is compiled: that took 0.4 of a run of 50 rows through 50 trees.
class TreeEnsembleKernel final : public Kernel {
 public:
  TreeEnsembleKernel(const TreeEnsemble& op, ops::TreeLayout layout) : op_(op), layout_(std::move(layout)) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<TreeEnsembleLaunch>(op_, layout_, shapes);
  }

 private:
  TreeEnsemble op_;
  ops::TreeLayout layout_;
};

std::optional<double> estimate_tree_ensemble(const RegionView& region) {
  if (!region.node.op.as<TreeEnsemble>()) return std::nullopt;
  for (size_t i = TreeEnsemble::x_in + 1; i < region.node.inputs.size(); ++i)
    if (region.node.inputs[i] != no_value && !region.graph.is_constant(region.node.inputs[i])) return std::nullopt;
  const double trees = size_at_optimum(region, region.graph.shape(region.node.inputs[TreeEnsemble::root_in])[0]);
  const double rows = size_at_optimum(region, region.graph.shape(region.node.inputs[TreeEnsemble::x_in])[0]);
  constexpr double seconds_per_walk = 5e-9;
  return seconds_per_launch + rows * trees * seconds_per_walk;
}

std::shared_ptr<const Kernel> compile_tree_ensemble(const RegionView& region, PackedConstants&) {
  const TreeEnsemble& op = *region.node.op.as<TreeEnsemble>();
  std::vector<Dims> dims(1);
  std::vector<const std::byte*> operands(1);
  for (size_t i = 1; i < region.node.inputs.size(); ++i) {
    const ValueId id = region.node.inputs[i];
    const Tensor constant = id == no_value ? Tensor() : *region.graph.value(id).constant;
    dims.push_back(constant.dims());
    operands.push_back(constant.data());
    // Its bytes may come later: rows then go down one by one.
    if (constant.is_elided()) return std::make_shared<TreeEnsembleKernel>(op, ops::TreeLayout{});
  }
  const auto dtype = [&](size_t i) { return region.graph.type(region.node.inputs[i]).dtype; };
  const ops::TreeSizes sizes = ops::tree_sizes(dtype(TreeEnsemble::x_in), dtype(TreeEnsemble::threshold_in), dims);
  return std::make_shared<TreeEnsembleKernel>(op, ops::lay_out_trees(op, sizes, operands));
}

}  // namespace

const CpuTactic tree_ensemble_tactic{"tree_ensemble", estimate_tree_ensemble, compile_tree_ensemble};

}  // namespace camshaft::cpu
