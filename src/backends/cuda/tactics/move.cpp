// Transposes, expansions, slices and concatenations on a GPU.
#include <algorithm>
#include <limits>

#include "backends/cuda/codegen/move_text.h"
#include "backends/cuda/device/concat_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "compile/optimum.h"

namespace camshaft::cuda {

namespace {

template <class T>
std::optional<double> estimate_move(const RegionView& region, const DeviceFacts&) {
  const Node& node = region.node;
  if (!node.op.as<T>() || !is_movable(region.graph.type(node.inputs[0]).dtype)) return std::nullopt;
  if (region.graph.shape(node.outputs[0]).size() > 8) return std::nullopt;  // dims of a kernel's iteration
  return seconds_per_launch + 2 * elements_at_optimum(region, node.outputs[0]) *
                                  bit_width(region.graph.type(node.inputs[0]).dtype) / 8 * seconds_per_byte;
}

// `make(shapes)` gives the move.
template <class Make>
std::shared_ptr<const Kernel> strided_kernel(const Workshop& workshop, Make make) {
  return device_kernel(
      [kernels = std::make_shared<const CopyKernels>(workshop), make](const KernelShapes& shapes) {
        return function_launch(
            [copy = StridedCopy(kernels, width_of(shapes.inputs[0]), make(shapes))](
                const LaunchArguments& a, Queue& queue) { copy.run(queue.stream(), a.inputs[0], a.outputs[0]); });
      },
      {.sliced_inputs = 1, .sliced_output = true});
}

std::shared_ptr<const Kernel> compile_transpose(const RegionView& region, const Workshop& workshop) {
  return strided_kernel(workshop, [op = *region.node.op.as<ops::Transpose>()](const KernelShapes& shapes) {
    return transpose_move(op, shapes);
  });
}

std::optional<double> estimate_expand(const RegionView& region, const DeviceFacts& device) {
  if (region.node.inputs.size() != 1) return std::nullopt;
  return estimate_move<ops::Expand>(region, device);
}

std::shared_ptr<const Kernel> compile_expand(const RegionView&, const Workshop& workshop) {
  return strided_kernel(workshop, expand_move);
}

std::shared_ptr<const Kernel> compile_slice(const RegionView& region, const Workshop& workshop) {
  return strided_kernel(
      workshop, [op = *region.node.op.as<ops::Slice>()](const KernelShapes& shapes) { return slice_move(op, shapes); });
}

// ---- concatenation

constexpr size_t most_parts = std::size(ConcatParameters{}.part);  // of a launch

/// A part as [outer, rows, row], where neighbours in a row are neighbours in memory.
struct PartShape {
  int64_t outer = 1, rows = 1, row = 1;
  int64_t in_outer = 0, in_row = 0, out_outer = 0, out_row = 0, start = 0;

  PartShape(const StridedMove& move, int64_t axis) : start(move.start) {
    const size_t rank = move.dims.size(), at = static_cast<size_t>(axis), last = rank - 1;
    row = move.dims[last];
    for (size_t d = 0; d < last; ++d) (d < at ? outer : rows) *= move.dims[d];
    if (at == last && rank > 1) {
      // All rows are alike: the ones before the axis.
      in_outer = move.in[last - 1];
      out_outer = move.out[last - 1];
      return;
    }
    if (last > 0) {
      in_row = move.in[last - 1];
      out_row = move.out[last - 1];
      if (at > 0) {
        in_outer = move.in[at - 1];
        out_outer = move.out[at - 1];
      }
    }
    if (in_row == row && out_row == row) {
      row *= rows;
      rows = 1;
    }
  }
  int64_t elements() const { return outer * rows * row; }
  /// Chunks of at most so many elements that all of it can be moved in.
  int64_t chunk(int64_t most) const {
    while (row % most != 0 || start % most != 0 || (outer > 1 && (in_outer % most != 0 || out_outer % most != 0)) ||
           (rows > 1 && (in_row % most != 0 || out_row % most != 0)))
      most /= 2;
    return most;
  }
};

struct ConcatKernels {
  explicit ConcatKernels(const Workshop& workshop) : device(workshop.device()) {
    const Module module = workshop.module("concat", concat_text());
    for (const char* name : {"concat_1", "concat_2", "concat_4", "concat_8", "concat_16"})
      functions.push_back(module.function(name));
  }
  std::shared_ptr<const Device> device;  // outlives the functions
  std::vector<Function> functions;       // by the logarithm of an element's bytes
};

class ConcatLaunch final : public Launch {
 public:
  ConcatLaunch(std::shared_ptr<const ConcatKernels> kernels, const ops::Concat& op, const KernelShapes& shapes)
      : kernels_(std::move(kernels)), width_(width_of(shapes.inputs[0])) {
    check_elements(element_count(shapes.outputs[0].dims), "a concatenation");
    for (const StridedMove& move : concat_moves(op, shapes)) parts_.emplace_back(move, op.axis);
    chunk_ = 16 / width_;
    for (const PartShape& part : parts_)
      if (part.elements() > 0) chunk_ = part.chunk(chunk_);
  }

  void run(const LaunchArguments& a) override {
    int64_t bytes = chunk_ * width_;
    std::byte* out = a.outputs[0];
    const auto align = [&](const std::byte* pointer) {
      while (reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) != 0) bytes /= 2;
    };
    align(out);
    for (size_t k = 0; k < parts_.size(); ++k)
      if (is_moved(a, k)) align(a.inputs[k]);
    ConcatParameters parts;
    for (size_t k = 0; k < parts_.size(); ++k) {
      if (!is_moved(a, k)) continue;
      add(parts, parts_[k], a.inputs[k], bytes / width_);
      if (parts.count == most_parts) launch(parts, out, bytes, a);
    }
    if (parts.count > 0) launch(parts, out, bytes, a);
  }

 private:
  // Empty parts have no memory, and what lies in the result already stays.
  bool is_moved(const LaunchArguments& a, size_t k) const {
    return parts_[k].elements() > 0 && a.inputs[k] != a.outputs[0] + parts_[k].start * width_;
  }

  static void add(ConcatParameters& parts, const PartShape& shape, const std::byte* data, int64_t chunk) {
    ConcatPart& part = parts.part[parts.count++];
    part = {data,
            shape.in_outer / chunk,
            shape.in_row / chunk,
            shape.out_outer / chunk,
            shape.out_row / chunk,
            shape.start / chunk,
            parts.chunks,
            Divisor(narrow(shape.row / chunk)),
            Divisor(narrow(shape.rows))};
    parts.chunks += narrow(shape.elements() / chunk);
  }

  void launch(ConcatParameters& parts, std::byte* out, int64_t bytes, const LaunchArguments& a) const {
    constexpr unsigned threads = 256;
    size_t log = 0;
    while (int64_t{1} << log < bytes) ++log;
    void* const arguments[] = {&parts, &out};
    kernels_->functions[log].launch(static_cast<Queue*>(a.queue)->stream(),
                                    {.blocks = blocks_for(parts.chunks, threads), .threads = threads}, arguments);
    parts = {};
  }

  std::shared_ptr<const ConcatKernels> kernels_;
  int64_t width_, chunk_;
  std::vector<PartShape> parts_;
};

class ConcatKernel final : public Kernel {
 public:
  ConcatKernel(const ops::Concat& op, const Workshop& workshop)
      : op_(op), kernels_(std::make_shared<const ConcatKernels>(workshop)) {}
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<ConcatLaunch>(kernels_, op_, shapes);
  }
  bool reads_slices(size_t) const override { return true; }
  bool writes_slices(size_t) const override { return true; }

 private:
  ops::Concat op_;
  std::shared_ptr<const ConcatKernels> kernels_;
};

std::shared_ptr<const Kernel> compile_concat(const RegionView& region, const Workshop& workshop) {
  return std::make_shared<ConcatKernel>(*region.node.op.as<ops::Concat>(), workshop);
}

}  // namespace

const CudaTactic transpose_tactic{"cuda_transpose", estimate_move<ops::Transpose>, compile_transpose};
const CudaTactic expand_tactic{"cuda_expand", estimate_expand, compile_expand};
const CudaTactic slice_tactic{"cuda_slice", estimate_move<ops::Slice>, compile_slice};
const CudaTactic concat_tactic{"cuda_concat", estimate_move<ops::Concat>, compile_concat};

}  // namespace camshaft::cuda
