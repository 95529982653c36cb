#include "backends/cpu/tactics/top_k.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "backends/cpu/kernels/reduce/top_k.h"
#include "backends/cpu/kernels/with_type.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "base/aligned_buffer.h"
#include "ir/ops/select.h"
#include "ir/symbols.h"

namespace camshaft::cpu {

namespace {

std::optional<double> estimate_top_k(const RegionView& region) {
  const auto* op = region.node.op.as<ops::TopK>();
  if (!op || !is_arithmetic(region.graph.type(region.node.inputs[0]).dtype)) return std::nullopt;
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
  TopKKernel(const ops::TopK& op, size_t outputs, bool is_dynamic)
      : op_(op), outputs_(outputs), is_dynamic_(is_dynamic) {}

  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    const int64_t k = shapes.outputs[0].dims[static_cast<size_t>(op_.axis)];
    return std::make_unique<TopKLaunch>(top_k(shapes.inputs[0].dims, k), shapes.inputs[0].dtype, shapes.threads);
  }

  // Where only running tells k, the size of the result is not known before.
  bool has_dynamic_outputs() const override { return is_dynamic_; }
  std::vector<Tensor> run_dynamic(const std::vector<Tensor>& inputs, const SymbolBindings&, ThreadPool& pool,
                                  const Cancellation*) const override {
    const Tensor& x = inputs[0];
    const std::vector<int64_t> asked = inputs[1].to_ints();
    if (asked.size() != 1)
      throw Error(ErrorCode::invalid_argument, fmt::format("top_k: k must be one number, not {}", asked.size()));
    const TopK top = top_k(x.dims(), asked[0]);
    Dims dims = x.dims();
    dims[static_cast<size_t>(op_.axis)] = top.k;
    std::vector<Tensor> results{Tensor::uncleared(x.dtype(), dims)};
    if (outputs_ > 1) results.push_back(Tensor::uncleared(DType::i64, dims));
    const int64_t bytes = std::max<int64_t>(64, top.workspace_bytes(x.dtype(), pool.size()));
    AlignedBuffer workspace(static_cast<size_t>(bytes), "the workspace of top_k");
    top.run(pool, x.dtype(), x.data(), results[0].mutable_data(),
            outputs_ > 1 ? results[1].as_mutable<int64_t>() : nullptr, workspace.data());
    return results;
  }

 private:
  TopK top_k(const Dims& dims, int64_t k) const {
    const AxisSplit split(dims, op_.axis);
    if (k < 0 || k > split.axis)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the {} elements asked for are not among the {} of axis {}", k, split.axis, op_.axis));
    if (split.axis > std::numeric_limits<int32_t>::max())
      throw Error(ErrorCode::unsupported, fmt::format("top_k of {} elements is not possible", split.axis));
    return {split.outer, split.axis, split.inner, k, op_.largest};
  }

  ops::TopK op_;
  size_t outputs_;
  bool is_dynamic_;
};

std::shared_ptr<const Kernel> compile_top_k(const RegionView& region, PackedConstants&) {
  const Value& values = region.graph.value(region.node.outputs[0]);
  return std::make_shared<TopKKernel>(*region.node.op.as<ops::TopK>(), region.node.outputs.size(),
                                      names_sizes_of(values.name, values.type.shape));
}

}  // namespace

const CpuTactic top_k_tactic{"top_k", estimate_top_k, compile_top_k};

}  // namespace camshaft::cpu
