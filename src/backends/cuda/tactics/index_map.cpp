// Index maps on a GPU.
#include "ir/ops/index_map.h"

#include <algorithm>

#include "backends/cuda/codegen/move_text.h"
#include "backends/cuda/device/pad_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "compile/optimum.h"
#include "compile/region/move_view.h"

namespace camshaft::cuda {

namespace {

constexpr size_t most_index_map_dims = std::size(IndexMapParameters{}.size);

struct IndexMapKernels {
  IndexMapKernels(const Workshop& workshop, int64_t width)
      : copies(std::make_shared<const CopyKernels>(workshop)), device(workshop.device()) {
    const Module module = workshop.module("index_map", index_map_text(static_cast<int>(width)));
    any = module.function("index_map_any");
    vector = module.function("index_map_vector");
  }
  std::shared_ptr<const CopyKernels> copies;  // where no index leaves the operand
  std::shared_ptr<const Device> device;       // outlives the functions
  Function any, vector;
};

class IndexMapLaunch final : public Launch {
 public:
  IndexMapLaunch(std::shared_ptr<const IndexMapKernels> kernels, const ops::IndexMap& op, const KernelShapes& shapes)
      : kernels_(std::move(kernels)),
        width_(width_of(shapes.inputs[0])),
        elements_(element_count(shapes.outputs[0].dims)),
        is_empty_(element_count(shapes.inputs[0].dims) == 0) {
    check_elements(elements_, "an index map");
    if (elements_ == 0) return;
    const IndexedMove move = indexed_move(op, shapes);
    if (const auto strided = move.strided()) {
      copy_.emplace(kernels_->copies, width_, *strided);
      return;
    }
    any_ = parameter(move);
    const int64_t count = 16 / width_;
    can_be_vector_ = count > 1 && is_in_chunks_of(count);
    if (!can_be_vector_) return;
    vector_ = any_;
    const size_t last = any_.rank - 1;
    vector_.chunks = any_.chunks / narrow(count);
    vector_.size[last] = Divisor(any_.size[last].value / narrow(count));
    vector_.in[last] *= count;
    vector_.out[last] *= count;
  }

  void run(const LaunchArguments& a) override {
    if (elements_ == 0) return;
    // An empty operand has no memory on the device.
    const std::byte* in = is_empty_ ? nullptr : a.inputs[0];
    const std::byte* value = input_of(a, 1);
    std::byte* out = a.outputs[0];
    if (copy_) return copy_->run(stream_of(a), in, out);
    in += start_ * width_;
    const bool vector = can_be_vector_ && is_aligned(in, 16) && is_aligned(out, 16);
    IndexMapParameters& indexed = vector ? vector_ : any_;
    void* const arguments[] = {&indexed, &in, &value, &out};
    (vector ? kernels_->vector : kernels_->any)
        .launch(stream_of(a), {.blocks = blocks_for(indexed.chunks, threads_a_block), .threads = threads_a_block},
                arguments);
  }

 private:
  IndexMapParameters parameter(const IndexedMove& move) {
    IndexMapParameters p;
    uint32_t number[most_index_map_dims];
    for (size_t d = 0; d < move.in.size(); ++d) {
      const auto& source = move.map.sources[d];
      number[d] = p.left;
      if (!source.leaves) {
        start_ += source.start * move.in[d];
        continue;
      }
      p.start[p.left] = source.start;
      p.length[p.left] = source.length;
      p.stride[p.left++] = move.in[d];
    }
    for (size_t a = 0; a < move.out.size(); ++a) {
      const auto& axis = move.map.axes[a];
      if (axis.size == 1) continue;
      const auto along = static_cast<size_t>(axis.along);
      const bool leaves = axis.along >= 0 && move.map.sources[along].leaves;
      const int64_t in = axis.along < 0 || leaves ? 0 : axis.step * move.in[along];
      p.along[p.rank] = leaves ? number[along] : p.left;
      p.step[p.rank] = leaves ? axis.step : 0;
      // One with the axis before it, where both are neighbours in the operand and in the result.
      const bool joins = p.rank > 0 && !leaves && p.along[p.rank - 1] == p.left && p.in[p.rank - 1] == in * axis.size &&
                         p.out[p.rank - 1] == move.out[a] * axis.size;
      const size_t at = joins ? p.rank - 1 : p.rank++;
      p.size[at] = Divisor(narrow((joins ? p.size[at].value : 1) * axis.size));
      p.in[at] = in;
      p.out[at] = move.out[a];
    }
    p.wraps = move.map.wraps ? 1 : 0;
    p.chunks = narrow(elements_);
    return p;
  }

  bool is_in_chunks_of(int64_t count) const {
    const size_t last = any_.rank - 1;
    if (any_.rank == 0 || any_.along[last] < any_.left || any_.in[last] != 1 || any_.out[last] != 1 ||
        any_.size[last].value % count != 0)
      return false;
    for (size_t a = 0; a < last; ++a)
      if (any_.in[a] % count != 0 || any_.out[a] % count != 0) return false;
    for (size_t e = 0; e < any_.left; ++e)
      if (any_.stride[e] % count != 0) return false;
    return start_ % count == 0;
  }

  std::shared_ptr<const IndexMapKernels> kernels_;
  int64_t width_, elements_, start_ = 0;  // start: along axes that are not left
  bool is_empty_, can_be_vector_ = false;
  std::optional<StridedCopy> copy_;
  IndexMapParameters any_, vector_;
};

class IndexMapKernel final : public Kernel {
 public:
  IndexMapKernel(ops::IndexMap op, std::shared_ptr<const IndexMapKernels> kernels)
      : op_(std::move(op)), kernels_(std::move(kernels)) {}
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<IndexMapLaunch>(kernels_, op_, shapes);
  }
  bool reads_slices(size_t i) const override { return i == 0; }
  bool writes_slices(size_t) const override { return true; }

 private:
  ops::IndexMap op_;
  std::shared_ptr<const IndexMapKernels> kernels_;
};

std::optional<double> estimate_index_map(const RegionView& region, const DeviceFacts&) {
  const Node& node = region.node;
  const auto* op = node.op.as<ops::IndexMap>();
  if (!op || !is_movable(region.graph.type(node.inputs[0]).dtype) || op->shape.size() > most_index_map_dims ||
      op->starts.size() > most_index_map_dims)
    return std::nullopt;
  return seconds_per_launch + 2 * elements_at_optimum(region, node.outputs[0]) *
                                  bit_width(region.graph.type(node.inputs[0]).dtype) / 8 * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_index_map(const RegionView& region, const Workshop& workshop) {
  const int64_t width = bit_width(region.graph.type(region.node.inputs[0]).dtype) / 8;
  return std::make_shared<IndexMapKernel>(*region.node.op.as<ops::IndexMap>(),
                                          std::make_shared<const IndexMapKernels>(workshop, width));
}

}  // namespace

const CudaTactic index_map_tactic{"cuda_index_map", estimate_index_map, compile_index_map};

}  // namespace camshaft::cuda
