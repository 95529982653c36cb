// The largest and smallest elements on a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/codegen/select_text.h"
#include "backends/cuda/device/top_k_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "base/divide_up.h"
#include "compile/optimum.h"
#include "compile/region/move_view.h"
#include "ir/ops/select.h"

namespace camshaft::cuda {

namespace {

constexpr int64_t most_kept = 1024;  // of a chunk, so that each round halves the keys at least
constexpr int64_t most_in_a_line = int64_t{1} << 30;

struct TopKKernels {
  TopKKernels(const Workshop& workshop, DType dtype) : device(workshop.device()) {
    const Module module = workshop.module("top_k", top_k_text(dtype));
    select_chunk = module.function("select_chunk_any");
    merge_far = module.function("merge_far_any");
    merge_near = module.function("merge_near_any");
  }
  std::shared_ptr<const Device> device;  // outlives the functions
  Function select_chunk, merge_far, merge_near;
};

class TopKLaunch final : public Launch {
 public:
  TopKLaunch(std::shared_ptr<const TopKKernels> kernels, const ops::TopK& op, const KernelShapes& shapes)
      : kernels_(std::move(kernels)) {
    const AxisSplit split(shapes.inputs[0].dims, op.axis);
    const int64_t k = shapes.outputs[0].dims[static_cast<size_t>(op.axis)];
    if (k < 0 || k > split.axis)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the {} elements asked for are not among the {} of axis {}", k, split.axis, op.axis));
    lines_ = split.outer * split.inner;
    if (lines_ == 0 || k == 0) {
      lines_ = 0;
      return;
    }
    if (split.axis > most_in_a_line)
      throw Error(ErrorCode::unsupported, fmt::format("top_k of {} elements is not possible on the GPU, only of 2^30; "
                                                      "choose a tactic of the host for it",
                                                      split.axis));
    base_.axis = narrow(split.axis);
    base_.k = narrow(k);
    base_.largest = op.largest;
    base_.inner = Divisor(narrow(split.inner));
    sorts_all_ = k > most_kept;
    sorts_all_ ? plan_sort(split.axis) : plan_rounds(split.axis, k);
  }

  size_t workspace_bytes() const override { return static_cast<size_t>(keys_[0] + keys_[1]) * sizeof(uint64_t); }

  void run(const LaunchArguments& a) override {
    if (lines_ == 0) return;
    const std::byte* x = a.inputs[0];
    std::byte* values = a.outputs[0];
    std::byte* indices = a.outputs.size() > 1 ? a.outputs[1] : nullptr;
    std::byte* in = nullptr;
    std::byte* out = a.workspace;
    const Stream& stream = stream_of(a);
    for (size_t r = 0; r < rounds_.size(); ++r) {
      void* const arguments[] = {&rounds_[r], &x, &in, &out, &values, &indices};
      kernels_->select_chunk.launch(stream, {.blocks = blocks(rounds_[r]), .threads = threads_a_block}, arguments);
      in = out;
      out = a.workspace + (r % 2 == 0 ? keys_[0] * static_cast<int64_t>(sizeof(uint64_t)) : 0);
    }
    if (sorts_all_) merge(stream, a.workspace, x, values, indices);
  }

 private:
  unsigned blocks(const TopKParameters& p) const { return narrow(lines_) * p.chunks.value; }

  // Each round keeps the first k of each chunk, until there is one chunk.
  void plan_rounds(int64_t count, int64_t k) {
    const auto keep = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(k)));
    for (;;) {
      TopKParameters p = base_;
      const int64_t chunks = divide_up(count, chunk_keys);
      check_elements(lines_ * chunks * chunk_keys, "top_k");
      p.count = narrow(count);
      p.keep = narrow(keep);
      p.chunks = Divisor(narrow(chunks));
      p.first = rounds_.empty();
      p.last = chunks == 1;
      rounds_.push_back(p);
      if (p.last) return;
      count = chunks * keep;
      int64_t& room = keys_[(rounds_.size() - 1) % 2];
      room = std::max(room, lines_ * count);
    }
  }

  void plan_sort(int64_t count) {
    const auto whole = std::max(int64_t{chunk_keys}, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count))));
    check_elements(lines_ * whole, "top_k");
    TopKParameters p = base_;
    p.count = narrow(count);
    p.keep = chunk_keys;
    p.chunks = Divisor(narrow(whole / chunk_keys));
    p.first = 1;
    p.alternating = 1;
    p.last = whole == chunk_keys;
    rounds_.push_back(p);
    keys_[0] = lines_ * whole;
  }

  void merge(const Stream& stream, std::byte* keys, const std::byte* x, std::byte* values, std::byte* indices) {
    TopKParameters p = rounds_[0];
    TopKMergeParameters step;
    step.line_keys = p.chunks.value * chunk_keys;
    step.pairs = narrow(keys_[0] / 2);
    for (step.size = 2 * chunk_keys; step.size <= step.line_keys; step.size *= 2) {
      for (step.stride = step.size / 2; step.stride >= chunk_keys; step.stride /= 2) {
        void* const arguments[] = {&step, &keys};
        kernels_->merge_far.launch(
            stream, {.blocks = blocks_for(step.pairs, threads_a_block), .threads = threads_a_block}, arguments);
      }
      p.last = step.size == step.line_keys;
      void* const arguments[] = {&p, &step.size, &keys, &x, &values, &indices};
      kernels_->merge_near.launch(stream, {.blocks = blocks(p), .threads = threads_a_block}, arguments);
    }
  }

  std::shared_ptr<const TopKKernels> kernels_;
  int64_t lines_ = 0;
  TopKParameters base_;
  bool sorts_all_ = false;
  std::vector<TopKParameters> rounds_;
  int64_t keys_[2] = {};  // of the two parts of the workspace, by turns
};

std::optional<double> estimate_top_k(const RegionView& region, const DeviceFacts&) {
  if (!region.node.op.as<ops::TopK>()) return std::nullopt;
  const DType dtype = region.graph.type(region.node.inputs[0]).dtype;
  // Keys have 32 bits of the value.
  if (!has_device_type(dtype) || dtype == DType::boolean || bit_width(dtype) > 32) return std::nullopt;
  // Where only running tells k, the size of the result is dynamic.
  const ValueId k = region.node.inputs[1];
  if (!region.graph.is_constant(k) && !region.graph.value(k).content) return std::nullopt;
  return 2 * seconds_per_launch + 8 * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_top_k(const RegionView& region, const Workshop& workshop) {
  const DType dtype = region.graph.type(region.node.inputs[0]).dtype;
  return device_kernel(
      [op = *region.node.op.as<ops::TopK>(), kernels = std::make_shared<const TopKKernels>(workshop, dtype)](
          const KernelShapes& shapes) -> std::unique_ptr<Launch> {
        return std::make_unique<TopKLaunch>(kernels, op, shapes);
      },
      OperandUse{.read_inputs = 1});
}

}  // namespace

const CudaTactic top_k_tactic{"cuda_top_k", estimate_top_k, compile_top_k};

}  // namespace camshaft::cuda
