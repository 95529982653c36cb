// Indices of extremes on a GPU.
#include "backends/cuda/codegen/reduce_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/device/arg_reduce_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/row_launch.h"
#include "compile/optimum.h"

namespace camshaft::cuda {

namespace {

struct ArgReduceKernel {
  std::shared_ptr<const Device> device;  // outlives the function
  Function function;
};

class ArgReduceLaunch final : public Launch {
 public:
  ArgReduceLaunch(const ops::ArgReduce& op, const ArgReduceKernel& kernel, const KernelShapes& shapes)
      : kernel_(kernel) {
    const Dims& dims = shapes.inputs[0].dims;
    int64_t inner = 1;
    for (auto d = static_cast<size_t>(op.axis) + 1; d < dims.size(); ++d) inner *= dims[d];
    const int64_t rows = element_count(shapes.outputs[0].dims), length = dims[static_cast<size_t>(op.axis)];
    if (rows == 0) return;
    if (length == 0) throw Error(ErrorCode::invalid_argument, "argmax or argmin along an axis of size 0 has no result");
    if (element_count(dims) > most_elements)
      throw Error(ErrorCode::unsupported, "argmax or argmin of more than 2^31 elements");
    // Where neighbours belong to different rows, a thread a row reads them side by side.
    const RowLaunch launch =
        row_launch(rows, inner == 1 ? length : 1, 16, reduce_threads, kernel.device->facts().multiprocessors);
    shape_.rows = narrow(rows);
    shape_.length = narrow(length);
    shape_.lanes = launch.lanes;
    shape_.inner = Divisor(narrow(inner));
    size_ = launch.size;
  }

  void run(const LaunchArguments& arguments) override {
    if (shape_.rows == 0) return;
    const auto* in = arguments.inputs[0];
    auto* out = arguments.outputs[0];
    void* parameters[] = {&shape_, &in, &out};
    kernel_.function.launch(stream_of(arguments), size_, parameters);
  }

 private:
  const ArgReduceKernel& kernel_;
  ArgReduceParameters shape_;
  LaunchSize size_;
};

std::optional<double> estimate_arg_reduce(const RegionView& region, const DeviceFacts&) {
  const auto* op = region.node.op.as<ops::ArgReduce>();
  if (!op || !has_device_type(region.graph.type(region.node.inputs[0]).dtype)) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_arg_reduce(const RegionView& region, const Workshop& workshop) {
  const auto& op = *region.node.op.as<ops::ArgReduce>();
  const Module module =
      workshop.module("arg_reduce", arg_reduce_text(op, region.graph.type(region.node.inputs[0]).dtype));
  const ArgReduceKernel kernel{workshop.device(), module.function("arg_reduce")};
  return device_kernel(
      [op, kernel](const KernelShapes& shapes) { return std::make_unique<ArgReduceLaunch>(op, kernel, shapes); });
}

}  // namespace

const CudaTactic arg_reduce_tactic{"cuda_arg_reduce", estimate_arg_reduce, compile_arg_reduce};

}  // namespace camshaft::cuda
