// Tensors of sizes, ranges and running totals on a GPU: small, but the host would have to wait for what is before them.
#include "ir/ops/generate.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/generate_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/device/generate_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "compile/constants/constant_axis.h"
#include "compile/optimum.h"
#include "compile/region/move_view.h"
#include "ir/ops/index.h"

namespace camshaft::cuda {

namespace {

struct GeneratingFunction {
  GeneratingFunction(const Workshop& workshop, DType dtype, const char* name)
      : device(workshop.device()), function(workshop.module("generate", generate_text(dtype)).function(name)) {}
  std::shared_ptr<const Device> device;  // outlives the function
  Function function;
};

// ---- sizes

constexpr size_t most_numbers = std::size(NumbersParameters{}.value);

/// Writes what `numbers_of(shapes)` lists; looks at no operand.
template <class NumbersOf>
class NumbersKernel final : public Kernel {
 public:
  NumbersKernel(GeneratingFunction function, NumbersOf numbers_of)
      : function_(std::move(function)), numbers_of_(std::move(numbers_of)) {}
  Place place() const override { return Place::device; }
  bool reads_input(size_t) const override { return false; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    NumbersParameters numbers;
    for (const int64_t value : numbers_of_(shapes)) numbers.value[numbers.count++] = value;
    auto run = [numbers, &function = function_.function](const LaunchArguments& a, Queue& queue) mutable {
      if (numbers.count == 0) return;
      std::byte* out = a.outputs[0];
      void* const arguments[] = {&numbers, &out};
      function.launch(queue.stream(), {.threads = threads_a_block}, arguments);
    };
    return function_launch(std::move(run));
  }

 private:
  GeneratingFunction function_;
  NumbersOf numbers_of_;
};

template <class NumbersOf>
std::shared_ptr<const Kernel> numbers_kernel(GeneratingFunction function, NumbersOf numbers_of) {
  return std::make_shared<NumbersKernel<NumbersOf>>(std::move(function), std::move(numbers_of));
}

std::optional<double> estimate_dims(const RegionView& region, const DeviceFacts&) {
  const auto* op = region.node.op.as<ops::DimsTensor>();
  if (!op || !has_device_type(op->dtype) || op->elements.size() > most_numbers) return std::nullopt;
  return seconds_per_launch;
}

std::shared_ptr<const Kernel> compile_dims(const RegionView& region, const Workshop& workshop) {
  const auto& op = *region.node.op.as<ops::DimsTensor>();
  return numbers_kernel(GeneratingFunction(workshop, op.dtype, "write_numbers_any"),
                        [elements = op.elements](const KernelShapes& shapes) {
                          Dims values;
                          for (const Dim& d : elements) values.push_back(d.evaluate(*shapes.symbols));
                          return values;
                        });
}

std::optional<double> estimate_shape(const RegionView& region, const DeviceFacts&) {
  const auto* op = region.node.op.as<ops::ShapeOf>();
  if (!op || op->end - op->start > static_cast<int64_t>(most_numbers)) return std::nullopt;
  return seconds_per_launch;
}

std::shared_ptr<const Kernel> compile_shape(const RegionView& region, const Workshop& workshop) {
  const auto& op = *region.node.op.as<ops::ShapeOf>();
  return numbers_kernel(GeneratingFunction(workshop, DType::i64, "write_numbers_any"),
                        [op](const KernelShapes& shapes) {
                          const Dims& dims = shapes.inputs[0].dims;
                          return Dims(dims.begin() + op.start, dims.begin() + op.end);
                        });
}

// ---- ranges

std::optional<double> estimate_range(const RegionView& region, const DeviceFacts&) {
  if (!region.node.op.as<ops::Range>() || !has_device_type(region.graph.type(region.node.outputs[0]).dtype))
    return std::nullopt;
  // The length must follow from what is known before running, as the kernel looks at no limit.
  for (size_t i = 0; i < 3; ++i) {
    const ValueId id = region.node.inputs[i];
    if (!region.graph.is_constant(id) && !region.graph.value(id).content) return std::nullopt;
  }
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_range(const RegionView& region, const Workshop& workshop) {
  const DType dtype = region.graph.type(region.node.outputs[0]).dtype;
  return device_kernel([loaded = GeneratingFunction(workshop, dtype, "range_any")](const KernelShapes& shapes) {
    const int64_t total = element_count(shapes.outputs[0].dims);
    check_elements(total, "a range");
    return function_launch([total, &loaded, count = narrow(total)](const LaunchArguments& a, Queue& queue) mutable {
      if (total == 0) return;
      const std::byte *start = a.inputs[0], *delta = a.inputs[2];
      std::byte* out = a.outputs[0];
      void* const arguments[] = {&count, &start, &delta, &out};
      loaded.function.launch(queue.stream(), {.blocks = blocks_for(total, threads_a_block), .threads = threads_a_block},
                             arguments);
    });
  });
}

// ---- running totals

std::optional<double> estimate_cumulative(const RegionView& region, const DeviceFacts&) {
  const DType dtype =
      region.node.op.as<ops::Cumulative>() ? region.graph.type(region.node.inputs[0]).dtype : DType::string;
  if (!has_device_type(dtype) || dtype == DType::boolean || !constant_axis(region)) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_cumulative(const RegionView& region, const Workshop& workshop) {
  const DType dtype = region.graph.type(region.node.inputs[0]).dtype;
  const auto make = [op = *region.node.op.as<ops::Cumulative>(), axis = *constant_axis(region),
                     run = GeneratingFunction(workshop, dtype, "run_line_any"),
                     scan = GeneratingFunction(workshop, dtype, "scan_line_any")](const KernelShapes& shapes) {
    const AxisSplit split(shapes.inputs[0].dims, axis);
    const int64_t total = element_count(shapes.inputs[0].dims);
    check_elements(total, "a running total");
    CumulativeParameters lines;
    lines.lines = narrow(total > 0 ? split.outer * split.inner : 0);
    lines.axis = narrow(total > 0 ? split.axis : 0);
    lines.inner = Divisor(narrow(std::max<int64_t>(total > 0 ? split.inner : 1, 1)));
    lines.product = op.kind == ops::CumulativeKind::product;
    lines.exclusive = op.exclusive;
    lines.reverse = op.reverse;
    // Few long lines leave most threads without one.
    const bool blocks = lines.lines < 8192 && lines.axis >= 64;
    return function_launch([=, &run, &scan](const LaunchArguments& a, Queue& queue) mutable {
      if (total == 0) return;
      const std::byte* in = a.inputs[0];
      std::byte* out = a.outputs[0];
      void* const arguments[] = {&lines, &in, &out};
      (blocks ? scan : run)
          .function.launch(
              queue.stream(),
              {.blocks = blocks ? lines.lines : blocks_for(lines.lines, threads_a_block), .threads = threads_a_block},
              arguments);
    });
  };
  return device_kernel(make, {.in_place = 1, .read_inputs = 1});
}

}  // namespace

const CudaTactic dims_tactic{"cuda_dims", estimate_dims, compile_dims};
const CudaTactic shape_tactic{"cuda_shape", estimate_shape, compile_shape};
const CudaTactic range_tactic{"cuda_range", estimate_range, compile_range};
const CudaTactic cumulative_tactic{"cuda_cumulative", estimate_cumulative, compile_cumulative};

}  // namespace camshaft::cuda
