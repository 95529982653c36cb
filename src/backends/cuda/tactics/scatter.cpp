// Scatters that replace elements, on a GPU. Those that combine them are left to the host: sums would depend on the
// order in which threads run.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/move_text.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/indexed.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "compile/layer_name.h"
#include "compile/optimum.h"
#include "compile/plan/shape_check.h"
#include "compile/region/move_view.h"
#include "ir/ops/index.h"

namespace camshaft::cuda {

namespace {

struct ScatterKernels {
  explicit ScatterKernels(const Workshop& workshop)
      : device(workshop.device()), copies(std::make_shared<const CopyKernels>(workshop)) {
    const Module module = workshop.module("scatter", scatter_text());
    clear = module.function("clear_all");
    find_last_slices = module.function("find_last_slices_any");
    find_last_elements = module.function("find_last_elements_any");
    for (const int bytes : {1, 2, 4, 8, 16}) {
      slices.push_back(module.function(fmt::format("scatter_slices_{}", bytes)));
      elements.push_back(module.function(fmt::format("scatter_elements_{}", bytes)));
    }
  }
  std::shared_ptr<const Device> device;  // outlives the functions
  std::shared_ptr<const CopyKernels> copies;
  Function clear, find_last_slices, find_last_elements;
  std::vector<Function> slices, elements;  // by the logarithm of an element's bytes
};

/// Both operators: x is copied unless the result lies there already, and then updates are moved, by `scatter`.
class ScatterLaunch : public Launch {
 public:
  /// `targets`: positions or slices of x that an update may go to.
  ScatterLaunch(std::shared_ptr<const ScatterKernels> kernels, std::string layer, const OperandShape& x,
                int64_t targets, int64_t updates)
      : kernels_(std::move(kernels)),
        layer_(std::move(layer)),
        copy_(kernels_->copies, width_of(x), {{element_count(x.dims)}, {1}, {1}, 0}),
        targets_(targets),
        updates_(updates) {
    check_elements(targets, "a scatter");
    check_elements(updates, "a scatter");
  }
  size_t workspace_bytes() const override {
    return updates_ > 0 ? static_cast<size_t>(targets_) * sizeof(uint32_t) : 0;
  }
  void run(const LaunchArguments& a) final {
    Queue& queue = *static_cast<Queue*>(a.queue);
    if (a.inputs[0] != a.outputs[0]) copy_.run(queue.stream(), a.inputs[0], a.outputs[0]);
    if (updates_ == 0) return;
    auto count = narrow(targets_);
    std::byte* last = a.workspace;
    void* const arguments[] = {&count, &last};
    launch(queue, kernels_->clear, targets_, arguments);
    scatter(a, queue, queue.complaints().of(layer_));
  }

 protected:
  static void launch(Queue& queue, const Function& function, int64_t items, std::span<void* const> arguments) {
    function.launch(queue.stream(), {.blocks = blocks_for(items, threads_a_block), .threads = threads_a_block},
                    arguments);
  }
  virtual void scatter(const LaunchArguments& a, Queue& queue, Complaint complaint) = 0;

  std::shared_ptr<const ScatterKernels> kernels_;

 private:
  std::string layer_;
  StridedCopy copy_;
  int64_t targets_, updates_;
};

class SlicesLaunch final : public ScatterLaunch {
 public:
  SlicesLaunch(std::shared_ptr<const ScatterKernels> kernels, std::string layer, const KernelShapes& shapes,
               const SliceShape& shape)
      : ScatterLaunch(std::move(kernels), std::move(layer), shapes.inputs[0], shape.parameter.slices,
                      shape.count * shape.inner),
        slices_(shape.parameter),
        count_(shape.count),
        row_bytes_(shape.inner * width_of(shapes.inputs[0])) {}

 private:
  void scatter(const LaunchArguments& a, Queue& queue, Complaint complaint) override {
    const std::byte *indices = a.inputs[1], *updates = a.inputs[2];
    std::byte *out = a.outputs[0], *last = a.workspace;
    const uintptr_t all = static_cast<uintptr_t>(row_bytes_) | reinterpret_cast<uintptr_t>(updates) |
                          reinterpret_cast<uintptr_t>(out) | 16;
    const auto bytes = static_cast<int64_t>(all & (~all + 1));  // the widest that all are multiples of
    slices_.inner = Divisor(narrow(row_bytes_ / bytes));
    slices_.chunks = narrow(count_ * (row_bytes_ / bytes));
    auto count = narrow(count_);
    void* const find[] = {&slices_, &count, &indices, &last, &complaint};
    launch(queue, kernels_->find_last_slices, count_, find);
    void* const move[] = {&slices_, &indices, &last, &updates, &out};
    launch(queue, kernels_->slices[log_of(bytes)], slices_.chunks, move);
  }

  SlicesParameters slices_;
  int64_t count_, row_bytes_;
};

class ElementsLaunch final : public ScatterLaunch {
 public:
  ElementsLaunch(std::shared_ptr<const ScatterKernels> kernels, std::string layer, const KernelShapes& shapes,
                 const ElementsParameters& elements)
      : ScatterLaunch(std::move(kernels), std::move(layer), shapes.inputs[0], element_count(shapes.inputs[0].dims),
                      elements.chunks),
        elements_(elements),
        width_(width_of(shapes.inputs[0])) {}

 private:
  void scatter(const LaunchArguments& a, Queue& queue, Complaint complaint) override {
    const std::byte *indices = a.inputs[1], *updates = a.inputs[2];
    std::byte *out = a.outputs[0], *last = a.workspace;
    void* const find[] = {&elements_, &indices, &last, &complaint};
    launch(queue, kernels_->find_last_elements, elements_.chunks, find);
    void* const move[] = {&elements_, &indices, &last, &updates, &out};
    launch(queue, kernels_->elements[log_of(width_)], elements_.chunks, move);
  }

  ElementsParameters elements_;
  int64_t width_;
};

/// A kernel whose prepare() is `make(kernels, layer, shapes)`.
template <class Make>
class ScatterKernel final : public Kernel {
 public:
  ScatterKernel(const RegionView& region, const Workshop& workshop, Make make)
      : kernels_(std::make_shared<const ScatterKernels>(workshop)),
        layer_(layer_name(region)),
        make_(std::move(make)) {}
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override { return make_(kernels_, layer_, shapes); }
  bool can_run_in_place(size_t i, size_t) const override { return i == 0; }

 private:
  std::shared_ptr<const ScatterKernels> kernels_;
  std::string layer_;
  Make make_;
};

template <class T>
std::optional<double> estimate_scatter(const RegionView& region, const DeviceFacts&) {
  const auto* op = region.node.op.as<T>();
  if (!op || op->kind != ops::ScatterKind::assign || !is_movable(region.graph.type(region.node.inputs[0]).dtype) ||
      region.graph.shape(region.node.inputs[0]).size() > 8)
    return std::nullopt;
  return 4 * seconds_per_launch + 2 * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_scatter_nd(const RegionView& region, const Workshop& workshop) {
  const auto make = [](const std::shared_ptr<const ScatterKernels>& kernels, const std::string& layer,
                       const KernelShapes& shapes) -> std::unique_ptr<Launch> {
    const Dims &x = shapes.inputs[0].dims, &indices = shapes.inputs[1].dims, &updates = shapes.inputs[2].dims;
    Dims expected(indices.begin(), indices.end() - 1);
    expected.insert(expected.end(), x.begin() + indices.back(), x.end());
    for (size_t d = 0; d < expected.size(); ++d)
      require_equal(updates[d], expected[d], "an axis of the updates of scatter_nd");
    return std::make_unique<SlicesLaunch>(kernels, layer, shapes, slices_of(shapes.inputs[0], shapes.inputs[1], 0));
  };
  return std::make_shared<ScatterKernel<decltype(make)>>(region, workshop, make);
}

std::shared_ptr<const Kernel> compile_scatter_elements(const RegionView& region, const Workshop& workshop) {
  const auto make = [axis = region.node.op.as<ops::ScatterElements>()->axis](
                        const std::shared_ptr<const ScatterKernels>& kernels, const std::string& layer,
                        const KernelShapes& shapes) -> std::unique_ptr<Launch> {
    const Dims &indices = shapes.inputs[1].dims, &updates = shapes.inputs[2].dims;
    for (size_t d = 0; d < indices.size(); ++d)
      require_equal(updates[d], indices[d], "an axis of the updates of scatter_elements");
    return std::make_unique<ElementsLaunch>(
        kernels, layer, shapes,
        elements_of(shapes.inputs[0], shapes.inputs[1], axis, "an axis of the indices of scatter_elements"));
  };
  return std::make_shared<ScatterKernel<decltype(make)>>(region, workshop, make);
}

}  // namespace

const CudaTactic scatter_nd_tactic{"cuda_scatter_nd", estimate_scatter<ops::ScatterND>, compile_scatter_nd};
const CudaTactic scatter_elements_tactic{"cuda_scatter_elements", estimate_scatter<ops::ScatterElements>,
                                         compile_scatter_elements};

}  // namespace camshaft::cuda
