#include "mutation/mutations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"

namespace camshaft::mutation {

namespace {

size_t draw(size_t count, Random& random) {
  return static_cast<size_t>(random.integer(0, static_cast<int64_t>(count) - 1));
}

std::vector<ValueId> weights(const Graph& graph, bool of_contractions) {
  std::vector<ValueId> found;
  for (const Node& node : graph.nodes)
    for (const ValueId id : node.inputs) {
      if (!graph.is_constant(id) || graph.type(id).dtype != DType::f32) continue;
      const Tensor& tensor = *graph.value(id).constant;
      const bool contracts = node.op.traits().kind == OpKind::contraction;
      if (of_contractions ? contracts && tensor.rank() >= 2 && tensor.size() > 1
                          : tensor.size() > 1 && tensor.rank() < 2)
        found.push_back(id);
    }
  return found;
}

Mutant with_constant(const Graph& graph, ValueId id, Tensor tensor, std::string what) {
  Mutant mutant{graph, std::move(what)};
  Value& value = mutant.graph.value(id);
  value.constant = std::make_shared<const Tensor>(std::move(tensor));
  value.provenance = nullptr;
  return mutant;
}

std::optional<Mutant> with_wrong_weight(const Graph& graph, Kind kind, Random& random) {
  std::vector<ValueId> candidates = weights(graph, kind != Kind::stale_scale);
  if (kind == Kind::axis_swap)
    std::erase_if(candidates, [&](ValueId id) {
      const Dims& dims = graph.value(id).constant->dims();
      return dims[dims.size() - 1] != dims[dims.size() - 2] || dims.back() < 2;
    });
  if (candidates.empty()) return std::nullopt;
  const ValueId id = candidates[draw(candidates.size(), random)];
  const Tensor& old = *graph.value(id).constant;
  Tensor made(old.dtype(), old.dims());
  const auto* from = old.as<float>();
  auto* to = made.as_mutable<float>();
  const auto size = static_cast<size_t>(old.size()), rows = static_cast<size_t>(old.dims()[0]), row = size / rows;
  std::copy(from, from + size, to);
  std::string where;
  switch (kind) {
    case Kind::sign: {
      const size_t axis = draw(old.dims().size(), random), along = static_cast<size_t>(old.dims()[axis]);
      const size_t index = draw(along, random);
      size_t inner = 1;
      for (size_t a = axis + 1; a < old.dims().size(); ++a) inner *= static_cast<size_t>(old.dims()[a]);
      for (size_t i = 0; i < size; ++i)
        if (i / inner % along == index) to[i] = -to[i];
      where = fmt::format(", index {} of axis {}", index, axis);
      break;
    }
    case Kind::row_shift:
      std::rotate(to, to + row, to + size);
      break;
    case Kind::tail:
      std::fill(to + (rows - std::max<size_t>(rows / 16, 1)) * row, to + size, 0.0F);
      break;
    case Kind::axis_swap: {
      const auto n = static_cast<size_t>(old.dims().back());
      for (size_t i = 0; i < size; ++i) to[i] = from[i / (n * n) * n * n + i % n * n + i / n % n];
      break;
    }
    default:
      for (size_t i = 0; i < size; ++i) to[i] *= 1.25F;
  }
  return with_constant(graph, id, std::move(made),
                       fmt::format("{} of '{}'{}", to_string(kind), graph.value(id).name, where));
}

// A step that takes and gives numbers of one type.
std::optional<Mutant> without_step(const Graph& graph, Random& random) {
  std::vector<size_t> candidates;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!node.op.as<ops::Pointwise>() || node.inputs.empty() || graph.is_constant(node.inputs[0])) continue;
    const TensorType &in = graph.type(node.inputs[0]), &out = graph.type(node.outputs[0]);
    if (in.dtype == out.dtype && in.shape == out.shape && in.dtype == DType::f32) candidates.push_back(n);
  }
  if (candidates.empty()) return std::nullopt;
  const size_t at = candidates[draw(candidates.size(), random)];
  const ValueId in = graph.nodes[at].inputs[0], out = graph.nodes[at].outputs[0];
  Mutant mutant{graph, fmt::format("without '{}'", graph.value(out).name)};
  mutant.graph.nodes.erase(mutant.graph.nodes.begin() + static_cast<ptrdiff_t>(at));
  for (Node& node : mutant.graph.nodes) std::replace(node.inputs.begin(), node.inputs.end(), out, in);
  std::replace(mutant.graph.outputs.begin(), mutant.graph.outputs.end(), out, in);
  return mutant;
}

std::optional<Mutant> with_shifted_window(const Graph& graph, Random& random) {
  // Padding as [begin of each axis, end of each axis].
  const auto shifted = [](Shape pads) -> std::optional<Shape> {
    const size_t axes = pads.size() / 2;
    if (axes == 0) return std::nullopt;
    const auto begin = pads[axes - 1].as_constant(), end = pads[2 * axes - 1].as_constant();
    if (!begin || !end || *begin < 1) return std::nullopt;
    pads[axes - 1] = Dim(*begin - 1);
    pads[2 * axes - 1] = Dim(*end + 1);
    return pads;
  };
  std::vector<std::pair<size_t, Op>> candidates;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (const auto* conv = graph.nodes[n].op.as<ops::Conv>())
      if (const auto pads = shifted(conv->pads)) {
        ops::Conv wrong = *conv;
        wrong.pads = *pads;
        candidates.emplace_back(n, wrong);
      }
  if (candidates.empty()) return std::nullopt;
  const auto& [at, op] = candidates[draw(candidates.size(), random)];
  Mutant mutant{graph, fmt::format("window of '{}'", graph.value(graph.nodes[at].outputs[0]).name)};
  mutant.graph.nodes[at].op = op;
  return mutant;
}

}  // namespace

std::string_view to_string(Kind kind) {
  constexpr std::string_view names[] = {"sign", "row_shift", "tail", "axis_swap", "stale_scale", "epilogue", "window"};
  return names[static_cast<size_t>(kind)];
}

std::optional<Mutant> mutate(const Graph& graph, Kind kind, Random& random) {
  if (kind == Kind::epilogue) return without_step(graph, random);
  if (kind == Kind::window) return with_shifted_window(graph, random);
  return with_wrong_weight(graph, kind, random);
}

}  // namespace camshaft::mutation
