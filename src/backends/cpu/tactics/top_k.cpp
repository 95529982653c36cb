#include "backends/cpu/tactics/top_k.h"

#include <fmt/format.h>

#include <limits>

#include "backends/cpu/kernels/reduce/top_k.h"
#include "backends/cpu/kernels/with_type.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/select.h"

namespace camshaft::cpu {

namespace {

std::optional<double> estimate_top_k(const RegionView& region) {
  const auto* op = region.node.op.as<ops::TopK>();
  if (!op || !is_arithmetic(region.graph.type(region.node.inputs[0]).dtype)) return std::nullopt;
  // Where only running tells k, the size of the result is dynamic.
  const Value& k = region.graph.value(region.node.inputs[1]);
  if (!region.graph.is_constant(region.node.inputs[1]) && !k.content) return std::nullopt;
  return seconds_per_launch + 4 * bytes_at_optimum(region) * seconds_per_byte;
}

class TopKLaunch final : public Launch {
 public:
  TopKLaunch(const TopK& top_k, DType dtype, int threads)
      : top_k_(top_k), dtype_(dtype), bytes_(top_k.workspace_bytes(dtype, threads)) {}
  size_t workspace_bytes() const override { return static_cast<size_t>(bytes_); }
  void run(const LaunchArguments& a) override {
    top_k_.run(a.pool, dtype_, a.inputs[0], a.outputs[0], output<int64_t>(a, 1), a.workspace);
  }

 private:
  TopK top_k_;
  DType dtype_;
  int64_t bytes_;
};

class TopKKernel final : public Kernel {
 public:
  explicit TopKKernel(const ops::TopK& op) : op_(op) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    const AxisSplit split(shapes.inputs[0].dims, op_.axis);
    const int64_t k = shapes.outputs[0].dims[static_cast<size_t>(op_.axis)];
    if (k < 0 || k > split.axis)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the {} elements asked for are not among the {} of axis {}", k, split.axis, op_.axis));
    if (split.axis > std::numeric_limits<int32_t>::max())
      throw Error(ErrorCode::unsupported, fmt::format("top_k of {} elements is not possible", split.axis));
    return std::make_unique<TopKLaunch>(TopK{split.outer, split.axis, split.inner, k, op_.largest},
                                        shapes.inputs[0].dtype, shapes.threads);
  }

 private:
  ops::TopK op_;
};

std::shared_ptr<const Kernel> compile_top_k(const RegionView& region, PackedConstants&) {
  return std::make_shared<TopKKernel>(*region.node.op.as<ops::TopK>());
}

}  // namespace

const CpuTactic top_k_tactic{"top_k", estimate_top_k, compile_top_k};

}  // namespace camshaft::cpu
