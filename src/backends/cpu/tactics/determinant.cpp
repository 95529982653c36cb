#include "backends/cpu/tactics/determinant.h"

#include "backends/cpu/kernels/reduce/determinant.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/window_ops.h"

namespace camshaft::cpu {

namespace {

class DeterminantLaunch final : public Launch {
 public:
  DeterminantLaunch(const Determinants& determinants, DType dtype, int threads)
      : determinants_(determinants), dtype_(dtype), bytes_(determinants.workspace_bytes(threads)) {}
  size_t workspace_bytes() const override { return bytes_; }
  void run(const LaunchArguments& a) override {
    determinants_.run(a.pool, dtype_, a.inputs[0], a.outputs[0], a.workspace);
  }

 private:
  Determinants determinants_;
  DType dtype_;
  size_t bytes_;
};

class DeterminantKernel final : public Kernel {
 public:
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    const Dims& dims = shapes.inputs[0].dims;
    require_equal(dims[dims.size() - 2], dims.back(), "the number of rows of a determinant's matrix");
    const Determinants determinants{element_count(shapes.outputs[0].dims), dims.back()};
    return std::make_unique<DeterminantLaunch>(determinants, shapes.inputs[0].dtype, shapes.threads);
  }
};

std::optional<double> estimate_determinant(const RegionView& region) {
  if (!region.node.op.as<ops::Determinant>()) return std::nullopt;
  const TensorType& x = region.graph.type(region.node.inputs[0]);
  if (x.dtype != DType::f32 && x.dtype != DType::f64) return std::nullopt;
  const double work = elements_at_optimum(region, region.node.inputs[0]) * size_at_optimum(region, x.shape.back()) / 3;
  return seconds_per_launch + 4 * work * seconds_per_flop + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_determinant(const RegionView&, PackedConstants&) {
  return std::make_shared<DeterminantKernel>();
}

}  // namespace

const CpuTactic determinant_tactic{"determinant", estimate_determinant, compile_determinant};

}  // namespace camshaft::cpu
