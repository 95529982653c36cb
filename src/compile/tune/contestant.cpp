#include "compile/tune/contestant.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/float_types.h"
#include "compile/chain.h"
#include "compile/plan/bound_plan.h"
#include "ir/ops/paged.h"
#include "ir/ops/paged_update.h"

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

// Whole numbers: number(e) for element e of an operand.
template <class Number>
Tensor integers(const OperandShape& shape, const Number& number) {
  Tensor made(shape.dtype, shape.dims);
  for (int64_t e = 0; e < made.size(); ++e) {
    if (shape.dtype == DType::i64)
      made.as_mutable<int64_t>()[e] = number(e);
    else
      made.as_mutable<int32_t>()[e] = static_cast<int32_t>(number(e));
  }
  return made;
}

Dims dims_of(const RegionView& region, ValueId id) {
  Dims dims;
  for (const Dim& d : region.graph.shape(id)) dims.push_back(d.evaluate(region.symbols));
  return dims;
}

// Of a step: as many tokens in each sequence, behind as many keys as the table has room for.
std::optional<Tensor> paged_operand(const RegionView& region, const OperandShape& shape, size_t i) {
  using Op = ops::PagedAttention;
  const auto dims = [&](size_t input) { return dims_of(region, region.node.inputs[input]); };
  const Dims table = dims(Op::in_table), keys = dims(Op::in_keys);
  const int64_t tokens = dims(Op::in_query)[0], sequences = table[0], width = table[1];
  const auto start = [&](int64_t s) { return s * tokens / sequences; };
  switch (i) {
    case Op::in_starts:
      return integers(shape, start);
    case Op::in_past:
      return integers(shape,
                      [&](int64_t s) { return std::max<int64_t>(width * keys[1] - (start(s + 1) - start(s)), 0); });
    case Op::in_table:  // as far apart as the cache has blocks
      return integers(shape, [&](int64_t e) { return (e % width * sequences + e / width) % keys[0]; });
    default:
      return std::nullopt;
  }
}

// The operand of the slots of what writes into a cache, and that of the cache.
std::optional<std::pair<size_t, size_t>> slots_and_cache(const Op& op) {
  if (op.as<ops::PagedStore>()) return std::pair{ops::PagedStore::in_slots, ops::PagedStore::in_cache};
  if (op.as<ops::PagedQuantize>()) return std::pair{ops::PagedQuantize::in_slots, ops::PagedQuantize::in_cache};
  if (op.as<ops::PagedUpdate>()) return std::pair{ops::PagedUpdate::in_slots, ops::PagedUpdate::in_keys};
  return std::nullopt;
}

std::optional<Tensor> operand_of_chain(const RegionView& region, const OperandShape& shape, size_t i) {
  const Graph& parts = region.node.bodies[0];
  for (const Node& part : parts.nodes)
    for (size_t k = 0; k < part.inputs.size(); ++k) {
      if (part.inputs[k] != parts.inputs[i]) continue;
      if (auto known = measured_operand({parts, part, region.symbols, region.threads}, shape, k)) return known;
    }
  return std::nullopt;
}

}  // namespace

std::optional<Tensor> measured_operand(const RegionView& region, const OperandShape& shape, size_t i) {
  if (is_chain(region.node)) return operand_of_chain(region, shape, i);
  if (region.node.op.as<ops::PagedAttention>()) return paged_operand(region, shape, i);
  const auto known = slots_and_cache(region.node.op);
  if (!known || i != known->first) return std::nullopt;
  const Dims cache = dims_of(region, region.node.inputs[known->second]);
  const int64_t apart = std::max<int64_t>(cache[0] * cache[1] / shape.dims[0], 1);
  return integers(shape, [&](int64_t e) { return e * apart; });
}

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
