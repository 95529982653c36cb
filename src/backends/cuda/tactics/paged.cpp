// What goes into caches in blocks on a GPU.
#include "ir/ops/paged.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/paged_text.h"
#include "backends/cuda/device/paged_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "compile/layer_name.h"
#include "compile/optimum.h"
#include "compile/plan/paged_check.h"
#include "compile/region/move_view.h"
#include "ir/ops/move.h"
#include "ir/ops/strides.h"

namespace camshaft::cuda {

namespace {

struct StoreKernels {
  explicit StoreKernels(const Workshop& workshop)
      : device(workshop.device()), copies(std::make_shared<const CopyKernels>(workshop)) {
    const Module module = workshop.module("paged_store", paged_store_text());
    for (const int bytes : {1, 2, 4, 8, 16}) functions.push_back(module.function(fmt::format("store_rows_{}", bytes)));
  }
  std::shared_ptr<const Device> device;  // outlives the functions
  std::shared_ptr<const CopyKernels> copies;
  std::vector<Function> functions;  // by the logarithm of the bytes
};

std::optional<double> estimate_paged_store(const RegionView& region, const DeviceFacts&) {
  if (!region.node.op.as<ops::PagedStore>()) return std::nullopt;
  const DType dtype = region.graph.type(region.node.inputs[0]).dtype;
  if (!is_movable(dtype)) return std::nullopt;
  const double rows = elements_at_optimum(region, region.node.inputs[ops::PagedStore::in_rows]);
  return seconds_per_launch + 2 * rows * bit_width(dtype) / 8 * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_paged_store(const RegionView& region, const Workshop& workshop) {
  const auto make = [kernels = std::make_shared<const StoreKernels>(workshop),
                     layer = layer_name(region)](const KernelShapes& shapes) {
    const Dims &cache = shapes.inputs[0].dims, &rows = shapes.inputs[1].dims;
    check_paged_store(shapes);
    const int64_t width = width_of(shapes.inputs[0]), row_bytes = ops::product(cache, 2, cache.size()) * width;
    check_elements(row_bytes, "a row of a cache");
    PagedStoreParameters p;
    p.count = narrow(rows[0], "the rows for a cache");
    p.wide = shapes.inputs[2].dtype == DType::i64 ? 1 : 0;
    p.places = cache[0] * cache[1];
    const bool is_empty = p.count == 0 || row_bytes == 0;
    const StridedCopy copy(kernels->copies, width, {{element_count(cache)}, {1}, {1}, 0});
    return function_launch([=](const LaunchArguments& a, Queue& queue) mutable {
      if (a.inputs[0] != a.outputs[0]) copy.run(queue.stream(), a.inputs[0], a.outputs[0]);
      if (is_empty) return;
      const std::byte *from = a.inputs[1], *slots = a.inputs[2];
      std::byte* to = a.outputs[0];
      const uintptr_t all =
          static_cast<uintptr_t>(row_bytes) | reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to) | 16;
      const auto bytes = static_cast<int64_t>(all & (~all + 1));  // the widest that all are multiples of
      p.chunks = static_cast<uint32_t>(row_bytes / bytes);
      Complaint complaint = queue.complaints().of(layer);
      void* const arguments[] = {&p, &from, &slots, &to, &complaint};
      constexpr uint32_t most_blocks = 1 << 16;
      kernels->functions[log_of(bytes)].launch(
          queue.stream(), {.blocks = std::min(p.count, most_blocks), .threads = paged_store_threads}, arguments);
    });
  };
  return device_kernel(make, true);
}

struct QuantizeKernels {
  QuantizeKernels(DType rows, DType cache, const Workshop& workshop)
      : device(workshop.device()), copies(std::make_shared<const CopyKernels>(workshop)) {
    quantize = workshop.module("paged_quantize", paged_quantize_text(rows, cache)).function("quantize_rows");
  }
  std::shared_ptr<const Device> device;  // outlives the functions
  std::shared_ptr<const CopyKernels> copies;
  Function quantize;
};

std::optional<double> estimate_paged_quantize(const RegionView& region, const DeviceFacts&) {
  using Op = ops::PagedQuantize;
  if (!region.node.op.as<Op>() || region.node.outputs.size() != 2) return std::nullopt;
  const DType dtype = region.graph.type(region.node.inputs[Op::in_rows]).dtype;
  if (!is_computed_float(dtype)) return std::nullopt;
  const double elements = elements_at_optimum(region, region.node.inputs[Op::in_rows]);
  return seconds_per_launch + elements * (bit_width(dtype) / 8 + 1) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_paged_quantize(const RegionView& region, const Workshop& workshop) {
  using Op = ops::PagedQuantize;
  const auto type = [&](size_t i) { return region.graph.type(region.node.inputs[i]).dtype; };
  const auto make = [kernels = std::make_shared<const QuantizeKernels>(type(Op::in_rows), type(Op::in_cache), workshop),
                     layer = layer_name(region)](const KernelShapes& shapes) {
    check_paged_quantize(shapes);
    const Dims& cache = shapes.inputs[Op::in_cache].dims;
    check_elements(cache[2] * cache[3], "a row of a cache");
    PagedQuantizeParameters p;
    p.count = narrow(shapes.inputs[Op::in_rows].dims[0], "the rows for a cache");
    p.wide = shapes.inputs[Op::in_slots].dtype == DType::i64 ? 1 : 0;
    p.heads = narrow(cache[2]);
    p.size = narrow(cache[3]);
    p.least = Op::least;
    p.highest = Op::highest(shapes.inputs[Op::in_cache].dtype);
    p.places = cache[0] * cache[1];
    const StridedCopy codes(kernels->copies, 1, {{element_count(cache)}, {1}, {1}, 0});
    const StridedCopy scales(kernels->copies, sizeof(float),
                             {{element_count(shapes.inputs[Op::in_scales].dims)}, {1}, {1}, 0});
    return function_launch([=](const LaunchArguments& a, Queue& queue) mutable {
      if (a.inputs[Op::in_cache] != a.outputs[0]) codes.run(queue.stream(), a.inputs[Op::in_cache], a.outputs[0]);
      if (a.inputs[Op::in_scales] != a.outputs[1]) scales.run(queue.stream(), a.inputs[Op::in_scales], a.outputs[1]);
      if (p.count == 0 || p.heads == 0) return;
      const std::byte *rows = a.inputs[Op::in_rows], *slots = a.inputs[Op::in_slots];
      std::byte *to = a.outputs[0], *to_scales = a.outputs[1];
      Complaint complaint = queue.complaints().of(layer);
      void* const arguments[] = {&p, &rows, &slots, &to, &to_scales, &complaint};
      constexpr uint32_t most_blocks = 1 << 16;
      kernels->quantize.launch(queue.stream(),
                               {.blocks = std::min(p.count, most_blocks), .threads = paged_store_threads}, arguments);
    });
  };
  return device_kernel(make, OperandUse{.in_place = 2});
}

}  // namespace

const CudaTactic paged_store_tactic{"cuda_paged_store", estimate_paged_store, compile_paged_store};
const CudaTactic paged_quantize_tactic{"cuda_paged_quantize", estimate_paged_quantize, compile_paged_quantize};

}  // namespace camshaft::cuda
