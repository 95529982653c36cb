// Indices of extremes on a GPU.
#include <algorithm>

#include "backends/cuda/codegen/reduce_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/device/arg_reduce_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/row_launch.h"
#include "base/divide_up.h"
#include "compile/optimum.h"

namespace camshaft::cuda {

namespace {

struct ArgReduceKernel {
  std::shared_ptr<const Device> device;  // outlives the functions
  Function function, merge;
};

// An element of up to 8 bytes and its place, as the device lays them out.
constexpr size_t extreme_bytes = 16;

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
    // Elements of each thread of a part: what is asked for at once, or half of it, as one row has nobody else to wait
    // for.
    constexpr int64_t least = 8, most_splits = 64;
    const int64_t multiprocessors = kernel.device->facts().multiprocessors, blocks = int64_t{size_.blocks};
    int64_t splits = 1;
    if (shape_.lanes == size_.threads && blocks < multiprocessors)
      splits =
          std::min({divide_up(length, least * size_.threads), divide_up(2 * multiprocessors, blocks), most_splits});
    shape_.part = narrow(divide_up(length, splits));
    shape_.splits = narrow(divide_up(length, int64_t{shape_.part}));
    size_.blocks_y = shape_.splits;
  }

  size_t workspace_bytes() const override {
    return shape_.splits == 1 ? 0 : size_t{shape_.rows} * shape_.splits * extreme_bytes;
  }

  void run(const LaunchArguments& arguments) override {
    if (shape_.rows == 0) return;
    const auto* in = arguments.inputs[0];
    auto* out = arguments.outputs[0];
    std::byte* partial = arguments.workspace;
    void* parameters[] = {&shape_, &in, &out, &partial};
    kernel_.function.launch(stream_of(arguments), size_, parameters);
    if (shape_.splits == 1) return;
    constexpr unsigned rows_of_block = reduce_threads / 32;
    kernel_.merge.launch(stream_of(arguments),
                         {.blocks = (shape_.rows + rows_of_block - 1) / rows_of_block, .threads = reduce_threads},
                         parameters);
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
  const ArgReduceKernel kernel{workshop.device(), module.function("arg_reduce"), module.function("arg_merge")};
  return device_kernel(
      [op, kernel](const KernelShapes& shapes) { return std::make_unique<ArgReduceLaunch>(op, kernel, shapes); });
}

}  // namespace

const CudaTactic arg_reduce_tactic{"cuda_arg_reduce", estimate_arg_reduce, compile_arg_reduce};

}  // namespace camshaft::cuda
