#include "mutation/mutations.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"

namespace camshaft::mutation {

namespace {

size_t draw(size_t count, Random& random) {
  return static_cast<size_t>(random.integer(0, static_cast<int64_t>(count) - 1));
}

// Of numbers that others are multiplied by; what is added may be an epsilon, which moves next to nothing.
bool is_factor(const Node& node, const Tensor& tensor) {
  const auto* scalar = node.op.as<ops::Pointwise>();
  return tensor.size() == 1 && scalar &&
         (scalar->function == ScalarFunction::mul || scalar->function == ScalarFunction::div);
}

std::vector<ValueId> weights(const Graph& graph, bool of_contractions) {
  std::vector<ValueId> found;
  for (const Node& node : graph.nodes)
    for (const ValueId id : node.inputs) {
      if (!graph.is_constant(id) || graph.type(id).dtype != DType::f32) continue;
      const Tensor& tensor = *graph.value(id).constant;
      const bool contracts = node.op.traits().kind == OpKind::contraction;
      if (of_contractions ? contracts && tensor.rank() >= 2 && tensor.size() > 1
                          : is_factor(node, tensor) || (tensor.size() > 1 && tensor.rank() < 2))
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
  const auto size = static_cast<size_t>(old.size()), rows = old.rank() == 0 ? 1 : static_cast<size_t>(old.dims()[0]),
             row = size / rows;
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

// Padding as [begin of each axis, end of each axis], the last axis one off; nullopt without any.
std::optional<Shape> shifted(Shape pads) {
  const size_t axes = pads.size() / 2;
  if (axes == 0) return std::nullopt;
  const auto begin = pads[axes - 1].as_constant(), end = pads[2 * axes - 1].as_constant();
  if (!begin || !end || *begin < 1) return std::nullopt;
  pads[axes - 1] = Dim(*begin - 1);
  pads[2 * axes - 1] = Dim(*end + 1);
  return pads;
}

template <class Window>
std::optional<Op> with_shifted_pads(const Node& node) {
  const auto* window = node.op.as<Window>();
  if (!window) return std::nullopt;
  const auto pads = shifted(window->pads);
  if (!pads) return std::nullopt;
  Window wrong = *window;
  wrong.pads = *pads;
  return wrong;
}

std::optional<Op> with_shifted_window(const Graph& /*graph*/, const Node& node) {
  auto wrong = with_shifted_pads<ops::Conv>(node);
  return wrong ? wrong : with_shifted_pads<ops::Pool>(node);
}

std::optional<Op> with_other_bound(const Graph& graph, const Node& node) {
  const auto* scalar = node.op.as<ops::Pointwise>();
  if (!scalar || graph.type(node.outputs[0]).shape.empty()) return std::nullopt;
  if (scalar->function == ScalarFunction::less) return ops::Pointwise{ScalarFunction::less_or_equal};
  if (scalar->function == ScalarFunction::less_or_equal) return ops::Pointwise{ScalarFunction::less};
  return std::nullopt;
}

// What may be made of a graph, none of which is made yet: a copy of a large graph takes its time.
using Choices = std::vector<std::function<Mutant()>>;

std::optional<Mutant> one_of(const Choices& choices, Random& random) {
  if (choices.empty()) return std::nullopt;
  return choices[draw(choices.size(), random)]();
}

// One node's operator replaced by what `wrong(graph, node)` gives, where it gives one.
template <class Wrong>
Choices with_other_operators(const Graph& graph, std::string_view what, const Wrong& wrong) {
  Choices choices;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (const std::optional<Op> op = wrong(graph, graph.nodes[n]))
      choices.emplace_back([&graph, what, n, op] {
        Mutant mutant{graph, fmt::format("{} of '{}'", what, graph.value(graph.nodes[n].outputs[0]).name)};
        mutant.graph.nodes[n].op = *op;
        return mutant;
      });
  return choices;
}

// Of bools, or of floats some of which stand for "never".
bool is_mask(const Tensor& tensor) {
  if (tensor.rank() < 2 || tensor.dims().back() < 2 || tensor.size() == 0) return false;
  if (tensor.dtype() == DType::boolean) return true;
  if (tensor.dtype() != DType::f32) return false;
  constexpr float never = -1e4F;
  const auto* numbers = tensor.as<float>();
  return std::any_of(numbers, numbers + tensor.size(), [](float x) { return x <= never; });
}

template <class T>
void rotate_rows(const Tensor& from, Tensor& to) {
  const int64_t row = from.dims().back();
  for (int64_t i = 0; i < from.size(); ++i) to.as_mutable<T>()[i] = from.as<T>()[i / row * row + (i % row + 1) % row];
}

Mutant with_shifted_mask(const Graph& graph, ValueId id) {
  const Tensor& old = *graph.value(id).constant;
  Tensor made(old.dtype(), old.dims());
  old.dtype() == DType::f32 ? rotate_rows<float>(old, made) : rotate_rows<uint8_t>(old, made);
  return with_constant(graph, id, std::move(made), fmt::format("mask '{}'", graph.value(id).name));
}

std::optional<Mutant> with_wrong_mask(const Graph& graph, Random& random) {
  Choices choices = with_other_operators(graph, "bound", with_other_bound);
  for (const Node& node : graph.nodes)
    for (const ValueId id : node.inputs)
      if (graph.is_constant(id) && is_mask(*graph.value(id).constant))
        choices.emplace_back([&graph, id] { return with_shifted_mask(graph, id); });
  return one_of(choices, random);
}

std::optional<Mutant> with_unwritten_tail(const Graph& graph, Random& random) {
  std::vector<size_t> candidates;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const TensorType& type = graph.type(graph.nodes[n].outputs[0]);
    if (graph.nodes[n].op.traits().kind != OpKind::contraction || type.dtype != DType::f32 || type.shape.empty())
      continue;
    if (const auto last = type.shape.back().as_constant(); last && *last > 1) candidates.push_back(n);
  }
  if (candidates.empty()) return std::nullopt;
  const size_t at = candidates[draw(candidates.size(), random)];
  const ValueId written = graph.nodes[at].outputs[0];
  const auto size = *graph.shape(written).back().as_constant();
  std::vector<float> factors(static_cast<size_t>(size), 1);
  std::fill(factors.end() - std::max<ptrdiff_t>(size / 16, 1), factors.end(), 0.0F);
  Mutant mutant{graph, fmt::format("tail of '{}'", graph.value(written).name)};
  Graph& wrong = mutant.graph;
  const ValueId mask = wrong.add_constant("written", Tensor::of<float>(DType::f32, {size}, factors));
  const ValueId cut = wrong.add(ops::Pointwise{ScalarFunction::mul}, {written, mask}, "cut");
  for (size_t n = at + 1; n + 1 < wrong.nodes.size(); ++n)
    std::replace(wrong.nodes[n].inputs.begin(), wrong.nodes[n].inputs.end(), written, cut);
  std::replace(wrong.outputs.begin(), wrong.outputs.end(), written, cut);
  // Nodes stand in the order of their use.
  const auto begin = wrong.nodes.begin() + static_cast<ptrdiff_t>(at) + 1;
  std::rotate(begin, wrong.nodes.end() - 1, wrong.nodes.end());
  return mutant;
}

}  // namespace

std::string_view to_string(Kind kind) {
  constexpr std::string_view names[] = {"sign",     "row_shift", "tail", "axis_swap", "stale_scale",
                                        "epilogue", "window",    "mask", "unwritten"};
  return names[static_cast<size_t>(kind)];
}

namespace {

std::optional<Mutant> mutate_nodes(const Graph& graph, Kind kind, Random& random) {
  if (kind == Kind::epilogue) return without_step(graph, random);
  if (kind == Kind::window) return one_of(with_other_operators(graph, "window", with_shifted_window), random);
  if (kind == Kind::mask) return with_wrong_mask(graph, random);
  if (kind == Kind::unwritten) return with_unwritten_tail(graph, random);
  return with_wrong_weight(graph, kind, random);
}

size_t count_nodes(const Graph& graph) {
  size_t count = graph.nodes.size();
  for (const Node& node : graph.nodes)
    for (const Graph& body : node.bodies) count += count_nodes(body);
  return count;
}

}  // namespace

std::optional<Mutant> mutate(const Graph& graph, Kind kind, Random& random) {
  // As likely in a body as it has nodes.
  size_t at = draw(std::max<size_t>(count_nodes(graph), 1), random);
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    for (size_t b = 0; b < graph.nodes[n].bodies.size(); ++b) {
      const size_t count = count_nodes(graph.nodes[n].bodies[b]);
      if (at >= count) {
        at -= count;
        continue;
      }
      auto inner = mutate(graph.nodes[n].bodies[b], kind, random);
      if (!inner) return std::nullopt;
      Mutant mutant{graph, inner->what};
      mutant.graph.nodes[n].bodies[b] = std::move(inner->graph);
      return mutant;
    }
  return mutate_nodes(graph, kind, random);
}

}  // namespace camshaft::mutation
