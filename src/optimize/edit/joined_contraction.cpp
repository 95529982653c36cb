#include "optimize/edit/joined_contraction.h"

#include <cstring>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

// A constant of each member side by side along an axis of `dims`, which are the result's but for that axis. A member
// may have none: zeros.
template <class Of>
ValueId join(Graph& graph, const ContractionGroup& group, Dims dims, size_t axis, const std::string& name,
             Of constant_of) {
  dims[axis] = group.width;
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < dims.size(); ++d)
    if (d != axis) (d < axis ? outer : inner) *= dims[d];
  const DType dtype = graph.type(group.members[0].weights).dtype;
  const size_t unit = static_cast<size_t>(inner) * static_cast<size_t>(bit_width(dtype) / 8);
  Tensor joined(dtype, dims);
  std::memset(joined.mutable_data(), 0, joined.bytes());
  for (const ParallelContraction& m : group.members) {
    const ValueId id = constant_of(m);
    if (id == no_value) continue;
    const size_t bytes = static_cast<size_t>(m.width) * unit;
    for (int64_t o = 0; o < outer; ++o)
      std::memcpy(joined.mutable_data() + static_cast<size_t>(o * group.width + m.first) * unit,
                  graph.value(id).constant->data() + static_cast<size_t>(o) * bytes, bytes);
  }
  return graph.add_constant(name, std::move(joined));
}

}  // namespace

ValueId add_joined(Graph& graph, Rewriter& rewriter, const ContractionGroup& group) {
  const ParallelContraction& first = group.members[0];
  const Node anchor = rewriter.nodes()[static_cast<size_t>(first.node)];
  const std::string name = graph.value(first.epilogue.result).name + ".joined";
  const auto sources_of = [&](auto node_of) {
    std::vector<std::string> sources;
    for (const ParallelContraction& m : group.members)
      sources = merged_sources(sources, rewriter.nodes()[static_cast<size_t>(node_of(m))].sources);
    return sources;
  };
  const std::vector<std::string> sources = sources_of([](const ParallelContraction& m) { return m.node; });

  const ValueId weights = join(graph, group, graph.value(first.weights).constant->dims(), group.axis,
                               graph.value(first.weights).name, [](const auto& m) { return m.weights; });
  std::vector<ValueId> inputs{rewriter.resolve(anchor.inputs[0]), weights};
  ValueId bias = no_value;
  for (const ParallelContraction& m : group.members)
    if (m.bias != no_value && bias == no_value)
      bias = join(graph, group, {0}, 0, name + ".bias", [](const auto& each) { return each.bias; });
  const bool conv = anchor.op.as<ops::Conv>() != nullptr;
  if (conv && bias != no_value) inputs.push_back(bias);
  std::vector<ValueId> results{graph.add(anchor.op, inputs, name, sources)};
  if (!conv && bias != no_value)
    results[0] = graph.add(ops::Pointwise{ScalarFunction::add}, {results[0], bias}, name, sources);

  for (size_t s = 0; s < first.epilogue.steps.size(); ++s) {
    const EpilogueStep& step = first.epilogue.steps[s];
    std::vector<ValueId> operands;
    for (size_t i = 0; i < step.operands.size(); ++i) {
      const EpilogueOperand& operand = step.operands[i];
      if (operand.kind == EpilogueOperand::Kind::result) {
        operands.push_back(results[operand.result]);
      } else if (operand.kind == EpilogueOperand::Kind::number) {
        operands.push_back(operand.constant);
      } else {
        operands.push_back(join(graph, group, {0}, 0, name + ".columns",
                                [&](const auto& m) { return m.epilogue.steps[s].operands[i].constant; }));
      }
    }
    results.push_back(graph.add(step.op, operands, name,
                                sources_of([&](const ParallelContraction& m) { return m.epilogue.nodes[s]; })));
  }
  return results.back();
}

}  // namespace camshaft
