#include "backends/cpu/tactics/byte_table.h"

#include <algorithm>
#include <memory>

#include "backends/cpu/kernels/pointwise/byte_table.h"
#include "backends/cpu/tactics/pointwise.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "compile/region/pointwise_view.h"

namespace camshaft::cpu {

namespace {

// One operand of 8 bits, of the result's shape.
std::optional<PointwiseView> view_table(const RegionView& region) {
  auto view = view_pointwise(region);
  if (!view || view->loads.size() != 1 || region.node.outputs.size() != 1 || !has_loops(view->program))
    return std::nullopt;
  const TensorType& in = region.graph.type(region.node.inputs[static_cast<size_t>(view->loads[0])]);
  const TensorType& out = region.graph.type(region.node.outputs[0]);
  const bool has_width = is_byte(out.dtype) || out.dtype == DType::f32 || out.dtype == DType::i32;
  if (!is_byte(in.dtype) || !has_width || in.shape != out.shape) return std::nullopt;
  return view;
}

std::optional<double> estimate_table(const RegionView& region) {
  if (!view_table(region)) return std::nullopt;
  constexpr double seconds_per_lookup = 2.5e-10;
  const double elements = elements_at_optimum(region, region.node.outputs[0]);
  return seconds_per_launch + std::max(elements * seconds_per_lookup, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_table(const RegionView& region, PackedConstants&) {
  const PointwiseView view = *view_table(region);
  const auto load = static_cast<size_t>(view.loads[0]);
  const bool in_place = is_byte(region.graph.type(region.node.outputs[0]).dtype) && load == 0;
  return simple_kernel(
      [load, table = std::make_shared<const ByteTable>(view.program)](const KernelShapes& shapes) {
        return [load, table, count = element_count(shapes.outputs[0].dims)](const LaunchArguments& a) {
          table->run(a.pool, count, input<uint8_t>(a, load), a.outputs[0]);
        };
      },
      in_place);
}

}  // namespace

const CpuTactic byte_table_tactic{"byte_table", estimate_table, compile_table};

}  // namespace camshaft::cpu
