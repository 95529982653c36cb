// Gathers on a GPU.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/move_text.h"
#include "backends/cuda/device/gather_parameters.h"
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

/// Kernels of one name, by the logarithm of an element's bytes.
struct GatherKernels {
  GatherKernels(const Workshop& workshop, GatherKind kind, const char* name, int widest) : device(workshop.device()) {
    const Module module = workshop.module(name, gather_text(kind));
    for (int bytes = 1; bytes <= widest; bytes *= 2)
      functions.push_back(module.function(fmt::format("{}_{}", name, bytes)));
  }
  std::shared_ptr<const Device> device;  // outlives the functions
  std::vector<Function> functions;

  void launch(const LaunchArguments& a, Queue& queue, int64_t bytes, const void* parameter, int64_t chunks,
              const std::string& layer, bool is_empty) const {
    Complaint complaint = queue.complaints().of(layer);
    size_t log = 0;
    while (int64_t{1} << log < bytes) ++log;
    const std::byte* in = is_empty ? nullptr : a.inputs[0];  // then it has no memory on the device
    const std::byte* indices = a.inputs[1];
    std::byte* out = a.outputs[0];
    void* const arguments[] = {const_cast<void*>(parameter), &in, &indices, &out, &complaint};
    functions[log].launch(queue.stream(), {.blocks = blocks_for(chunks, threads_a_block), .threads = threads_a_block},
                          arguments);
  }
};

/// The widest element, to 16 bytes, that `row_bytes` and both pointers are multiples of.
int64_t element_bytes(int64_t row_bytes, const LaunchArguments& a) {
  const uintptr_t all = static_cast<uintptr_t>(row_bytes) | reinterpret_cast<uintptr_t>(a.inputs[0]) |
                        reinterpret_cast<uintptr_t>(a.outputs[0]) | 16;
  return static_cast<int64_t>(all & (~all + 1));
}

template <class T>
std::optional<double> estimate_gather(const RegionView& region, const DeviceFacts&) {
  const Node& node = region.node;
  if (!node.op.as<T>() || !is_movable(region.graph.type(node.inputs[0]).dtype)) return std::nullopt;
  if (region.graph.shape(node.inputs[0]).size() > 8) return std::nullopt;  // dims of a kernel's parameter
  const double width = bit_width(region.graph.type(node.inputs[0]).dtype) / 8;
  return seconds_per_launch + 2 * elements_at_optimum(region, node.outputs[0]) * width * seconds_per_byte;
}

// ---- rows

std::shared_ptr<const Kernel> compile_gather(const RegionView& region, const Workshop& workshop) {
  const auto make = [op = *region.node.op.as<ops::Gather>(), layer = layer_name(region),
                     kernels = std::make_shared<const GatherKernels>(workshop, GatherKind::rows, "gather_rows", 16)](
                        const KernelShapes& shapes) {
    const AxisSplit split(shapes.inputs[0].dims, op.axis);
    const int64_t count = element_count(shapes.inputs[1].dims), total = split.outer * count * split.inner;
    check_elements(total, "a gather");
    const int64_t row_bytes = split.inner * width_of(shapes.inputs[0]);
    GatherRowsParameters rows;
    rows.wide = shapes.inputs[1].dtype == DType::i64;
    rows.count = Divisor(narrow(std::max<int64_t>(count, 1)));
    rows.size = split.axis;
    rows.axis = narrow(op.axis);
    const bool is_empty = element_count(shapes.inputs[0].dims) == 0;
    return function_launch([=, lines = split.outer * count](const LaunchArguments& a, Queue& queue) mutable {
      if (total == 0) return;
      const int64_t bytes = element_bytes(row_bytes, a), chunks = lines * (row_bytes / bytes);
      rows.chunks = narrow(chunks);
      rows.inner = Divisor(narrow(row_bytes / bytes));
      kernels->launch(a, queue, bytes, &rows, chunks, layer, is_empty);
    });
  };
  return device_kernel(make);
}

// ---- elements

std::shared_ptr<const Kernel> compile_gather_elements(const RegionView& region, const Workshop& workshop) {
  const auto make = [op = *region.node.op.as<ops::GatherElements>(), layer = layer_name(region),
                     kernels = std::make_shared<const GatherKernels>(workshop, GatherKind::elements, "gather_elements",
                                                                     8)](const KernelShapes& shapes) {
    check_elements(element_count(shapes.inputs[1].dims), "a gather");
    const ElementsParameters elements =
        elements_of(shapes.inputs[0], shapes.inputs[1], op.axis, "an axis of the indices of gather_elements");
    const bool is_empty = element_count(shapes.inputs[0].dims) == 0;
    return function_launch([=, width = width_of(shapes.inputs[0])](const LaunchArguments& a, Queue& queue) mutable {
      if (elements.chunks > 0) kernels->launch(a, queue, width, &elements, elements.chunks, layer, is_empty);
    });
  };
  return device_kernel(make, {.sliced_inputs = 1});
}

// ---- slices

std::shared_ptr<const Kernel> compile_gather_nd(const RegionView& region, const Workshop& workshop) {
  const auto make = [op = *region.node.op.as<ops::GatherND>(), layer = layer_name(region),
                     kernels = std::make_shared<const GatherKernels>(workshop, GatherKind::slices, "gather_slices",
                                                                     16)](const KernelShapes& shapes) {
    const OperandShape &x = shapes.inputs[0], &indices = shapes.inputs[1];
    const auto batch_axes = static_cast<size_t>(op.batch_dims);
    for (size_t d = 0; d < batch_axes; ++d)
      require_equal(indices.dims[d], x.dims[d], "a batch axis of the indices of gather_nd");
    const int64_t total = element_count(shapes.outputs[0].dims);
    check_elements(total, "a gather");
    const SliceShape shape = slices_of(x, indices, batch_axes);
    const bool is_empty = element_count(shapes.inputs[0].dims) == 0;
    return function_launch([=, slices = shape.parameter, row_bytes = shape.inner * width_of(x)](
                               const LaunchArguments& a, Queue& queue) mutable {
      if (total == 0) return;
      const int64_t bytes = element_bytes(row_bytes, a), chunks = shape.count * (row_bytes / bytes);
      slices.chunks = narrow(chunks);
      slices.inner = Divisor(narrow(row_bytes / bytes));
      kernels->launch(a, queue, bytes, &slices, chunks, layer, is_empty);
    });
  };
  return device_kernel(make);
}

}  // namespace

const CudaTactic gather_tactic{"cuda_gather", estimate_gather<ops::Gather>, compile_gather};
const CudaTactic gather_elements_tactic{"cuda_gather_elements", estimate_gather<ops::GatherElements>,
                                        compile_gather_elements};
const CudaTactic gather_nd_tactic{"cuda_gather_nd", estimate_gather<ops::GatherND>, compile_gather_nd};

}  // namespace camshaft::cuda
