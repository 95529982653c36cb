// What ranks do together, over the link between their devices, or where they have none, over the host's memory.
#include "ir/ops/collective.h"

#include <memory>
#include <optional>

#include "backends/cuda/libraries/nccl.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "base/communicator.h"
#include "compile/optimum.h"
#include "compile/plan/shape_check.h"

namespace camshaft::cuda {

namespace {

using ops::CollectiveKind;
using ops::CollectiveReduction;

// The link of the calling thread's run.
NcclLink* current_link() {
  const Communicator* const communicator = CommunicatorScope::current();
  return communicator ? static_cast<NcclLink*>(communicator->link()) : nullptr;
}

std::optional<api::NcclType> nccl_type(DType dtype) {
  switch (dtype) {
    case DType::i8:
      return api::nccl_i8;
    case DType::u8:
      return api::nccl_u8;
    case DType::i32:
      return api::nccl_i32;
    case DType::u32:
      return api::nccl_u32;
    case DType::i64:
      return api::nccl_i64;
    case DType::u64:
      return api::nccl_u64;
    case DType::f16:
      return api::nccl_f16;
    case DType::f32:
      return api::nccl_f32;
    case DType::f64:
      return api::nccl_f64;
    case DType::bf16:
      return api::nccl_bf16;
    default:
      return std::nullopt;
  }
}

// Nothing where the library's results would be others: the lesser of NaN and a number is the number to it, and sums of
// integers are divided otherwise.
std::optional<api::NcclReduction> nccl_reduction(const ops::Collective& op, DType dtype) {
  switch (op.reduction) {
    case CollectiveReduction::sum:
      return api::nccl_sum;
    case CollectiveReduction::prod:
      return api::nccl_prod;
    case CollectiveReduction::avg:
      return is_floating(dtype) ? std::optional(api::nccl_avg) : std::nullopt;
    case CollectiveReduction::min:
      return is_floating(dtype) ? std::nullopt : std::optional(api::nccl_min);
    case CollectiveReduction::max:
      return is_floating(dtype) ? std::nullopt : std::optional(api::nccl_max);
  }
  return std::nullopt;
}

bool is_linked(const ops::Collective& op, DType dtype) {
  return !op.reduces() || (nccl_type(dtype) && nccl_reduction(op, dtype));
}

size_t aligned_bytes(size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// Ranks' parts lie one behind the other in what the library sends and receives: as they do in tensors where the axis is
// the first that has more than one element, and as copies bring them otherwise.
class CollectiveLaunch final : public Launch {
 public:
  CollectiveLaunch(const ops::Collective& op, std::unique_ptr<Launch> on_host,
                   const std::shared_ptr<const CopyKernels>& kernels, const KernelShapes& shapes)
      : op_(op),
        on_host_(std::move(on_host)),
        dtype_(shapes.inputs[0].dtype),
        x_bytes_(byte_size(dtype_, element_count(shapes.inputs[0].dims))),
        y_bytes_(byte_size(dtype_, element_count(shapes.outputs[0].dims))) {
    if (!op.has_axis()) return;
    const Dims& dims = shapes.inputs[0].dims;
    const auto axis = static_cast<size_t>(op.axis);
    const bool gathers = op.kind == CollectiveKind::all_gather;
    if (!gathers) require_equal(dims[axis] % op.ranks, 0, "what is left of an axis that ranks share equally");
    int64_t outer = 1, part = 1;  // of a rank: what is before the axis, and its elements from there on
    for (size_t d = 0; d < dims.size(); ++d) (d < axis ? outer : part) *= dims[d];
    if (!gathers) part /= op.ranks;
    if (outer <= 1 || part == 0) return;
    const int64_t row = op.ranks * part, rank = outer * part;
    const int64_t width = width_of(shapes.inputs[0]);
    const Dims sizes{op.ranks, outer, part}, by_row{part, row, 1}, by_rank{rank, part, 1};
    if (!gathers) split_.emplace(kernels, width, StridedMove{sizes, by_row, by_rank});
    if (op.kind != CollectiveKind::reduce_scatter) join_.emplace(kernels, width, StridedMove{sizes, by_rank, by_row});
  }

  size_t workspace_bytes() const override {
    return (split_ ? aligned_bytes(x_bytes_) : 0) + (join_ ? y_bytes_ : 0) + on_host_->workspace_bytes();
  }

  void run(const LaunchArguments& a) override {
    Queue& queue = *static_cast<Queue*>(a.queue);
    NcclLink* const link = current_link();
    if (link && is_linked(op_, dtype_)) {
      queue.set_ranks(CommunicatorScope::current()->shared_from_this());
      if (y_bytes_ > 0) run_linked(a, *link, queue.stream());
      // The driver brings a library's kernels to the device when they are first launched, and may wait for what is
      // there then, all threads of the process with it: not for a rank that is one of these.
      if (is_first_ && !queue.stream().is_recorded()) queue.await_ranks();
      is_first_ = false;
      return;
    }
    if (!link) queue.set_ranks(nullptr);
    run_on_host(a, queue);
  }

 private:
  void run_linked(const LaunchArguments& a, NcclLink& link, const Stream& stream) {
    std::byte* const joined = split_ ? a.workspace + aligned_bytes(x_bytes_) : a.workspace;
    const std::byte* const x = split_ ? a.workspace : a.inputs[0];
    std::byte* const y = join_ ? joined : a.outputs[0];
    if (split_) split_->run(stream, a.inputs[0], a.workspace);
    const auto ranks = static_cast<size_t>(op_.ranks);
    const size_t elements = y_bytes_ / byte_size(dtype_, 1);
    switch (op_.kind) {
      case CollectiveKind::all_reduce:
        link.all_reduce(stream, x, y, elements, *nccl_type(dtype_), *nccl_reduction(op_, dtype_));
        break;
      case CollectiveKind::all_gather:
        link.all_gather(stream, x, y, x_bytes_);
        break;
      case CollectiveKind::reduce_scatter:
        link.reduce_scatter(stream, x, y, elements, *nccl_type(dtype_), *nccl_reduction(op_, dtype_));
        break;
      case CollectiveKind::broadcast:
        link.broadcast(stream, x, y, x_bytes_, static_cast<int>(op_.root));
        break;
      case CollectiveKind::all_to_all:
        link.all_to_all(stream, x, y, x_bytes_ / ranks);
        break;
    }
    if (join_) join_->run(stream, joined, a.outputs[0]);
  }

  void run_on_host(const LaunchArguments& a, Queue& queue) {
    const size_t y_begin = aligned_bytes(x_bytes_), workspace_begin = y_begin + aligned_bytes(y_bytes_);
    size_t room = workspace_begin + aligned_bytes(on_host_->workspace_bytes()) + 256;
    if (!memory_) memory_ = queue.allocate_pinned(room, "what ranks send each other");
    void* begin = memory_.get();
    auto* const x = static_cast<std::byte*>(std::align(256, workspace_begin, begin, room));
    std::byte* const y = x + y_begin;
    queue.copy_to_host({x, x_bytes_}, a.inputs[0]);
    queue.synchronize();
    const std::byte* const inputs[] = {x};
    std::byte* const outputs[] = {y};
    on_host_->run({inputs, outputs, x + workspace_begin, a.pool, a.cancellation});
    queue.copy_to_device(a.outputs[0], {y, y_bytes_});
  }

  ops::Collective op_;
  std::unique_ptr<Launch> on_host_;
  DType dtype_;
  size_t x_bytes_, y_bytes_;
  std::optional<StridedCopy> split_, join_;
  bool is_first_ = true;
  std::shared_ptr<std::byte> memory_;  // of the host: operands, results and workspace there
};

class CollectiveKernel final : public Kernel {
 public:
  CollectiveKernel(const ops::Collective& op, DType dtype, std::shared_ptr<const Kernel> on_host,
                   std::shared_ptr<const CopyKernels> kernels)
      : op_(op), dtype_(dtype), on_host_(std::move(on_host)), kernels_(std::move(kernels)) {}
  Place place() const override { return Place::device; }
  bool can_be_recorded() const override { return current_link() && is_linked(op_, dtype_); }
  // A graph keeps what the library needs to run the kernels that it has recorded, and gives it up with them.
  bool can_be_updated() const override { return false; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<CollectiveLaunch>(op_, on_host_->prepare(shapes), kernels_, shapes);
  }

 private:
  ops::Collective op_;
  DType dtype_;
  std::shared_ptr<const Kernel> on_host_;
  std::shared_ptr<const CopyKernels> kernels_;
};

std::optional<double> estimate_collective(const RegionView& region, const DeviceFacts&) {
  constexpr double seconds_per_meeting = 1e-5, seconds_per_linked_byte = 1 / 3e11;
  const auto* op = region.node.op.as<ops::Collective>();
  if (!op || !is_movable(region.graph.type(region.node.inputs[0]).dtype)) return std::nullopt;
  return seconds_per_meeting + bytes_at_optimum(region) * seconds_per_linked_byte;
}

std::shared_ptr<const Kernel> compile_collective(const RegionView& region, const Workshop& workshop,
                                                 PackedConstants& constants) {
  const Backend& host = workshop.host();
  return std::make_shared<CollectiveKernel>(
      *region.node.op.as<ops::Collective>(), region.graph.type(region.node.inputs[0]).dtype,
      host.compile(region, host.tactics(region).front(), constants), std::make_shared<const CopyKernels>(workshop));
}

}  // namespace

const CudaTactic collective_tactic{"cuda_collective", estimate_collective, compile_collective};

}  // namespace camshaft::cuda
