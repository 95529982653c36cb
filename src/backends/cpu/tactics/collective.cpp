#include "backends/cpu/tactics/collective.h"

#include "backends/cpu/kernels/collective/collective.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/collective.h"

namespace camshaft::cpu {

namespace {

std::optional<double> estimate_collective(const RegionView& region) {
  const auto* op = region.node.op.as<ops::Collective>();
  if (!op || (op->reduces() && !reduces_type(region.graph.type(region.node.inputs[0]).dtype))) return std::nullopt;
  return seconds_per_launch + static_cast<double>(op->ranks) * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_collective(const RegionView& region, PackedConstants&) {
  return simple_kernel([op = *region.node.op.as<ops::Collective>()](const KernelShapes& shapes) {
    const Dims& dims = shapes.inputs[0].dims;
    const DType dtype = shapes.inputs[0].dtype;
    const auto axis = static_cast<size_t>(op.has_axis() ? op.axis : 0);
    CollectiveRun run{.op = op, .call = ops::described(op, dtype, dims), .dtype = dtype};
    for (size_t a = 0; a < dims.size(); ++a) (a < axis ? run.outer : run.inner) *= dims[a];
    if (op.has_axis() && op.kind != ops::CollectiveKind::all_gather)
      require_equal(dims[axis] % op.ranks, 0, "what is left of an axis that ranks share equally");
    return [run](const LaunchArguments& a) { run.run(a.inputs[0], a.outputs[0]); };
  });
}

}  // namespace

const CpuTactic collective_tactic{"collective", estimate_collective, compile_collective};

}  // namespace camshaft::cpu
