#include "backends/cpu/tactics/gather_matmul.h"

#include "backends/cpu/kernels/gemm/gather_gemm.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "compile/optimum.h"
#include "compile/plan/gather_matmul_check.h"
#include "ir/ops/gather_matmul.h"

namespace camshaft::cpu {

namespace {

class GatherMatMulLaunch final : public Launch {
 public:
  explicit GatherMatMulLaunch(const KernelShapes& shapes)
      : index_type_(shapes.inputs[ops::GatherMatMul::in_indices].dtype) {
    check_gather_matmul(shapes);
    const Dims& w = shapes.inputs[ops::GatherMatMul::in_matrices].dims;
    product_.rows = shapes.inputs[ops::GatherMatMul::in_rows].dims[0];
    product_.matrices = w[0];
    product_.in = w[1];
    product_.out = w[2];
    product_.type = shapes.inputs[ops::GatherMatMul::in_matrices].dtype;
  }
  size_t workspace_bytes() const override { return product_.workspace_bytes(); }
  void run(const LaunchArguments& a) override {
    product_.run(a.pool,
                 {input<float>(a, ops::GatherMatMul::in_rows), a.inputs[ops::GatherMatMul::in_indices],
                  a.inputs[ops::GatherMatMul::in_matrices]},
                 index_type_, output<float>(a, 0), a.workspace);
  }

 private:
  DType index_type_;
  GatherGemm product_;
};

class GatherMatMulKernel final : public Kernel {
 public:
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<GatherMatMulLaunch>(shapes);
  }
};

std::optional<double> estimate_gather_matmul(const RegionView& region) {
  if (!region.node.op.as<ops::GatherMatMul>()) return std::nullopt;
  const auto type = [&](size_t i) { return region.graph.type(region.node.inputs[i]).dtype; };
  const DType w = type(ops::GatherMatMul::in_matrices);
  if (type(ops::GatherMatMul::in_rows) != DType::f32 || (w != DType::f32 && w != DType::f16 && w != DType::bf16))
    return std::nullopt;
  const double in = size_at_optimum(region, region.graph.shape(region.node.inputs[ops::GatherMatMul::in_rows])[1]);
  const double flops = 2 * elements_at_optimum(region, region.node.outputs[0]) * in;
  return seconds_per_launch + 2 * flops * seconds_per_flop;
}

std::shared_ptr<const Kernel> compile_gather_matmul(const RegionView&, PackedConstants&) {
  return std::make_shared<GatherMatMulKernel>();
}

}  // namespace

const CpuTactic gather_matmul_tactic{"gather_matmul", estimate_gather_matmul, compile_gather_matmul};

}  // namespace camshaft::cpu
