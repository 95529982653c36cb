// Pooling on a GPU.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/codegen/window_text.h"
#include "backends/cuda/device/pool_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "compile/optimum.h"
#include "compile/region/move_view.h"
#include "ir/ops/reduce.h"
#include "ir/ops/spatial.h"
#include "ir/ops/window_ops.h"

namespace camshaft::cuda {

namespace {

// Kernels count positions in 32 bits.
int32_t pool_position(int64_t number) {
  constexpr int64_t most = int64_t{1} << 29;
  if (number < -most || number > most)
    throw Error(ErrorCode::unsupported, fmt::format("pooling reaches position {}, more than the GPU's kernels count to "
                                                    "(2^29)",
                                                    number));
  return static_cast<int32_t>(number);
}

template <class Op>
bool has_small_window(const Op& op) {
  constexpr int64_t most = 1 << 20;
  const auto is_small = [](int64_t n) { return n <= most; };
  const auto are_small = [&](const std::vector<int64_t>& list) {
    return std::all_of(list.begin(), list.end(), is_small);
  };
  if (op.kernel.empty() || op.kernel.size() > 3 || !are_small(op.kernel) || !are_small(op.strides) ||
      !are_small(op.dilations))
    return false;
  for (size_t i = 0; i < op.kernel.size(); ++i)
    if ((op.kernel[i] - 1) * op.dilations[i] > most) return false;
  return true;
}

/// What the operator's axes make of the parameter, where images are dense planes: channels first, or no channels.
/// `first`: the axis of the shapes that is the op's first; `pixel`: elements from pixel to pixel.
template <class Op>
PoolParameters pooling_of(const Op& op, const KernelShapes& shapes, size_t first, int64_t pixel) {
  PoolParameters p;
  const Dims &in = shapes.inputs[0].dims, &out = shapes.outputs[0].dims;
  const size_t spatial = op.kernel.size(), skipped = 3 - spatial;
  Divisor* sizes[] = {&p.depth, &p.height, &p.width};
  for (size_t i = 0; i < spatial; ++i) {
    const size_t a = skipped + i;
    p.in[a] = pool_position(in[first + i]);
    p.before[a] = pool_position(ops::evaluate_pad(op.pads[i], *shapes.symbols));
    p.after[a] = pool_position(ops::evaluate_pad(op.pads[spatial + i], *shapes.symbols));
    pool_position(out[first + i] * op.strides[i]);
    *sizes[a] = Divisor(narrow(std::max<int64_t>(out[first + i], 1)));
  }
  p.pixel = pixel;
  p.row = p.in[2] * p.pixel;
  p.plane = p.in[1] * p.row;
  p.image = p.in[0] * p.plane;
  p.out_pixel = 1;
  return p;
}

PoolWindow window_of(const std::vector<int64_t>& kernel, const std::vector<int64_t>& strides,
                     const std::vector<int64_t>& dilations) {
  PoolWindow window;
  const size_t skipped = 3 - kernel.size();
  for (size_t i = 0; i < kernel.size(); ++i) {
    window.kernel[skipped + i] = kernel[i];
    window.stride[skipped + i] = strides[i];
    window.dilation[skipped + i] = dilations[i];
  }
  return window;
}

bool has_pool_type(DType dtype) {
  return has_device_type(dtype) && dtype != DType::boolean;
}

// ---- maximum and average

struct PoolKernels {
  PoolKernels(const Workshop& workshop, const ops::Pool& op, DType dtype) : device(workshop.device()) {
    PoolWindow window = window_of(op.kernel, op.strides, op.dilations);
    window.average = op.kind == ops::PoolKind::average;
    window.count_padding = op.count_include_pad;
    const Module module = workshop.module("pool", pool_text(window, dtype));
    any = module.function("pool_any");
    vector = module.function("pool_vector");
  }
  std::shared_ptr<const Device> device;  // outlives the functions
  Function any, vector;
};

std::optional<double> estimate_pool(const RegionView& region, const DeviceFacts&) {
  const auto* op = region.node.op.as<ops::Pool>();
  if (!op || !has_pool_type(region.graph.type(region.node.inputs[0]).dtype) || !has_small_window(*op))
    return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_pool(const RegionView& region, const Workshop& workshop) {
  const auto& pool = *region.node.op.as<ops::Pool>();
  const DType dtype = region.graph.type(region.node.inputs[0]).dtype;
  const auto make = [op = pool,
                     kernels = std::make_shared<const PoolKernels>(workshop, pool, dtype)](const KernelShapes& shapes) {
    const OperandShape &in = shapes.inputs[0], &out = shapes.outputs[0];
    const int64_t total = element_count(out.dims), channels = op.channels_last ? in.dims.back() : 1;
    check_elements(total, "a pooling");
    PoolParameters p = pooling_of(op, shapes, op.channels_last ? 1 : 2, op.channels_last ? in.pitch() : 1);
    p.out_pixel = op.channels_last ? out.pitch() : 1;
    // A thread takes 16 bytes of channels, unless that would leave most of the machine idle.
    const int64_t count = 128 / bit_width(in.dtype);
    constexpr int64_t least_chunks = 1 << 14;
    const bool can_be_vector = op.channels_last && channels % count == 0 && p.pixel % count == 0 &&
                               p.out_pixel % count == 0 && total / count >= least_chunks;
    const bool is_empty = element_count(shapes.inputs[0].dims) == 0;
    return function_launch([=](const LaunchArguments& a, Queue& queue) mutable {
      if (total == 0) return;
      const std::byte* x = is_empty ? nullptr : a.inputs[0];  // then it has no memory on the device
      std::byte* y = a.outputs[0];
      const bool vector = can_be_vector && (reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y)) % 16 == 0;
      const int64_t elements = vector ? count : 1;
      p.channels = Divisor(narrow(channels / elements));
      p.chunks = narrow(total / elements);
      void* const arguments[] = {&p, &x, &y};
      (vector ? kernels->vector : kernels->any)
          .launch(queue.stream(), {.blocks = blocks_for(p.chunks, threads_a_block), .threads = threads_a_block},
                  arguments);
    });
  };
  const bool pixels = pool.channels_last;
  return device_kernel(make, {.sliced_inputs = pixels ? size_t{1} : 0, .sliced_output = pixels});
}

// ---- indices of maxima

struct IndexKernel {
  IndexKernel(const Workshop& workshop, const ops::MaxPoolIndices& op, DType dtype) : device(workshop.device()) {
    function = workshop.module("pool_indices", pool_indices_text(window_of(op.kernel, op.strides, op.dilations), dtype))
                   .function("pool_indices_any");
  }
  std::shared_ptr<const Device> device;  // outlives the function
  Function function;
};

std::optional<double> estimate_pool_indices(const RegionView& region, const DeviceFacts&) {
  const auto* op = region.node.op.as<ops::MaxPoolIndices>();
  if (!op || !has_pool_type(region.graph.type(region.node.inputs[0]).dtype) || !has_small_window(*op))
    return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_pool_indices(const RegionView& region, const Workshop& workshop) {
  const auto& indices = *region.node.op.as<ops::MaxPoolIndices>();
  const DType dtype = region.graph.type(region.node.inputs[0]).dtype;
  return device_kernel([op = indices, kernel = std::make_shared<const IndexKernel>(workshop, indices, dtype)](
                           const KernelShapes& shapes) {
    const int64_t total = element_count(shapes.outputs[0].dims);
    check_elements(total, "a pooling");
    PoolParameters p = pooling_of(op, shapes, 2, 1);
    p.chunks = narrow(total);
    const bool is_empty = element_count(shapes.inputs[0].dims) == 0;
    return function_launch(
        [=, column_major = uint32_t{op.column_major}](const LaunchArguments& a, Queue& queue) mutable {
          if (total == 0) return;
          const std::byte* x = is_empty ? nullptr : a.inputs[0];  // then it has no memory on the device
          std::byte* y = a.outputs[0];
          void* const arguments[] = {&p, &column_major, &x, &y};
          kernel->function.launch(
              queue.stream(), {.blocks = blocks_for(total, threads_a_block), .threads = threads_a_block}, arguments);
        });
  });
}

}  // namespace

const CudaTactic pool_tactic{"cuda_pool", estimate_pool, compile_pool};
const CudaTactic pool_indices_tactic{"cuda_pool_indices", estimate_pool_indices, compile_pool_indices};

}  // namespace camshaft::cuda
