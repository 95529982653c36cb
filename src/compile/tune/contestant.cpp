#include "compile/tune/contestant.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/float_types.h"
#include "compile/plan/bound_plan.h"

namespace camshaft {

namespace {

template <class T, class Convert>
void fill_as(std::byte* at, size_t bytes, const Convert& convert) {
  uint32_t state = 12345;
  for (size_t i = 0; i < bytes; i += sizeof(T)) {
    state = state * 1664525U + 1013904223U;
    const T value = convert(static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31F);
    std::memcpy(at + i, &value, sizeof value);
  }
}

}  // namespace

Contestant make_contestant(const Backend& backend, const RegionView& region, const Tactic& tactic, int threads) {
  Contestant contestant;
  contestant.packed = std::make_unique<PackedConstants>();
  const std::optional<KernelShapes> shapes = measured_shapes(region, threads);
  if (!shapes) return contestant;
  try {
    contestant.kernel = backend.compile(region, tactic, *contestant.packed);
    if (!contestant.kernel->has_dynamic_outputs()) contestant.launch = contestant.kernel->prepare(*shapes);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::cancelled) throw;
  }
  return contestant;
}

std::optional<KernelShapes> measured_shapes(const RegionView& region, int threads) {
  KernelShapes shapes;
  shapes.symbols = &region.symbols;
  shapes.threads = threads;
  size_t total = 0;
  const auto add = [&](ValueId id, std::vector<OperandShape>& list) {
    OperandShape shape;
    if (id != no_value) {
      const TensorType& type = region.graph.type(id);
      if (holds_objects(type.dtype)) return false;
      shape.dtype = type.dtype;
      for (const Dim& d : type.shape) shape.dims.push_back(d.evaluate(region.symbols));
      for (const int64_t d : shape.dims)
        if (d <= 0) return false;
      if (!region.graph.is_constant(id)) total += operand_bytes(shape.dtype, shape.dims);
    }
    list.push_back(std::move(shape));
    return total <= most_measured_bytes;
  };
  try {
    for (const ValueId id : region.node.inputs)
      if (!add(id, shapes.inputs)) return std::nullopt;
    for (const ValueId id : region.node.outputs)
      if (!add(id, shapes.outputs)) return std::nullopt;
  } catch (const Error&) {  // sizes that only running tells, or that no memory holds
    return std::nullopt;
  }
  return shapes;
}

void fill_operand(DType dtype, std::byte* at, size_t bytes) {
  switch (dtype) {
    case DType::f32:
      return fill_as<float>(at, bytes, [](float x) { return x; });
    case DType::f16:
      return fill_as<uint16_t>(at, bytes, [](float x) { return float_to_f16(x); });
    case DType::bf16:
      return fill_as<uint16_t>(at, bytes, [](float x) { return float_to_bf16(x); });
    default:
      return;
  }
}

}  // namespace camshaft
