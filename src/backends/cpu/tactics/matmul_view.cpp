#include "backends/cpu/tactics/matmul_view.h"

#include <algorithm>

#include "backends/cpu/kernels/gemm/unpacked_gemm.h"

namespace camshaft::cpu {

std::optional<MatMulView> view_matmul(const RegionView& region, const ContractTakes& takes) {
  std::optional<ContractView> contract = view_contract(region);
  if (!contract) return std::nullopt;
  const auto* op = contract->anchor->op.as<ops::MatMul>();
  if (!op) return std::nullopt;
  std::optional<ContractEpilogue> epilogue = ContractEpilogue::make(region, *contract, -1, takes);
  if (!epilogue) return std::nullopt;
  MatMulView view{std::move(*contract), std::move(*epilogue), *op};
  view.a = view.contract.anchor_inputs[0];
  view.b = view.contract.anchor_inputs[1];
  view.rounded_a = region.graph.type(region.node.inputs[static_cast<size_t>(view.a)]).dtype == DType::bf16;
  if (view.rounded_a && !takes.rounded) return std::nullopt;
  return view;
}

bool has_constant_matrix(const RegionView& region, const MatMulView& view) {
  const ValueId b = region.node.inputs[static_cast<size_t>(view.b)];
  const Shape& shape = region.graph.shape(b);
  return region.graph.is_constant(b) && region.graph.type(b).dtype == DType::f32 &&
         std::all_of(shape.begin(), shape.end() - 2, [](const Dim& d) { return d == Dim(1); });
}

double matmul_flops(const RegionView& region, const MatMulView& view) {
  const ValueId a = region.node.inputs[static_cast<size_t>(view.a)];
  const Shape& shape = region.graph.shape(a);
  return 2 * elements_at_optimum(region, region.node.outputs[0]) *
         size_at_optimum(region, shape[shape.size() - (view.op.transpose_a ? 2 : 1)]);
}

}  // namespace camshaft::cpu
