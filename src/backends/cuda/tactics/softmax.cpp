// Softmax on a GPU.
#include <algorithm>
#include <bit>

#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/device/softmax_parameters.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/row_kernels.h"
#include "compile/optimum.h"
#include "ir/ops/reduce.h"

namespace camshaft::cuda {

namespace {

struct SoftmaxKernels {
  RowKernels rows;
  Function columns;
};

class SoftmaxRowsLaunch final : public Launch {
 public:
  SoftmaxRowsLaunch(const SoftmaxKernels& kernels, const RowParameters& rows)
      : can_be_vector_(RowForm::can_be_vector(rows, kernels.rows.vector_elements)),
        any_(kernels.rows, rows, false),
        vector_(kernels.rows, rows, can_be_vector_) {}

  void run(const LaunchArguments& arguments) override {
    const auto* in = arguments.inputs[0];
    auto* out = arguments.outputs[0];
    void* parameters[] = {nullptr, &in, &out};
    const bool vector = can_be_vector_ && is_aligned(in, 16) && is_aligned(out, 16);
    (vector ? vector_ : any_).launch(stream_of(arguments), parameters);
  }

 private:
  bool can_be_vector_;
  RowForm any_, vector_;
};

class SoftmaxColumnsLaunch final : public Launch {
 public:
  SoftmaxColumnsLaunch(const SoftmaxKernels& kernels, int64_t columns, int64_t length, int64_t inner)
      : kernels_(kernels) {
    constexpr int64_t warp = 32, threads = 256, most_steps = 32;
    // As many threads down the axis as leave each some steps, if there are not columns enough for all threads.
    int64_t downs = 1;
    const int multiprocessors = kernels.rows.device->facts().multiprocessors;
    while (downs < threads / warp && length > most_steps * downs / 8 && columns * downs < threads * multiprocessors)
      downs *= 2;
    shape_.columns = narrow(columns);
    shape_.length = narrow(length);
    shape_.lanes = narrow(downs == 1 ? std::min<int64_t>(threads, 128) : threads / downs);
    shape_.inner = Divisor(narrow(inner));
    size_.threads = narrow(shape_.lanes * downs);
    size_.blocks = narrow((columns + shape_.lanes - 1) / shape_.lanes);
  }

  void run(const LaunchArguments& arguments) override {
    const auto* in = arguments.inputs[0];
    auto* out = arguments.outputs[0];
    void* parameters[] = {&shape_, &in, &out};
    kernels_.columns.launch(stream_of(arguments), size_, parameters);
  }

 private:
  const SoftmaxKernels& kernels_;
  SoftmaxColumnsParameters shape_;
  LaunchSize size_;
};

class NothingLaunch final : public Launch {
 public:
  void run(const LaunchArguments&) override {}
};

std::unique_ptr<Launch> prepare(const ops::Softmax& op, const SoftmaxKernels& kernels, const KernelShapes& shapes) {
  const Dims& dims = shapes.inputs[0].dims;
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < dims.size(); ++d)
    if (static_cast<int64_t>(d) != op.axis) (static_cast<int64_t>(d) < op.axis ? outer : inner) *= dims[d];
  const int64_t length = dims[static_cast<size_t>(op.axis)];
  if (outer == 0 || inner == 0 || length == 0) return std::make_unique<NothingLaunch>();
  const RowParameters rows = row_parameters(outer * inner, length);
  if (inner == 1) return std::make_unique<SoftmaxRowsLaunch>(kernels, rows);
  return std::make_unique<SoftmaxColumnsLaunch>(kernels, outer * inner, length, inner);
}

std::optional<double> estimate_softmax(const RegionView& region, const DeviceFacts&) {
  if (!region.node.op.as<ops::Softmax>() || !has_device_type(region.graph.type(region.node.inputs[0]).dtype))
    return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_softmax(const RegionView& region, const Workshop& workshop) {
  const auto& op = *region.node.op.as<ops::Softmax>();
  const RowText text = softmax_text(op.log, region.graph.type(region.node.inputs[0]).dtype);
  const Module module = workshop.module("softmax", text.text);
  const SoftmaxKernels kernels{RowKernels(workshop, module, text), module.function("columns")};
  return device_kernel([op, kernels](const KernelShapes& shapes) { return prepare(op, kernels, shapes); }, true);
}

}  // namespace

const CudaTactic softmax_tactic{"cuda_softmax", estimate_softmax, compile_softmax};

}  // namespace camshaft::cuda
