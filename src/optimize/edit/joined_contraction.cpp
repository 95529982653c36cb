#include "optimize/edit/joined_contraction.h"

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "optimize/analysis/match.h"
#include "reference/derived_constant.h"

namespace camshaft {

namespace {

// A constant of each member side by side along an axis; dims are those that a member's has, but for that axis. A member
// may have none: zeros.
template <class Of>
ValueId join(Graph& graph, const ContractionGroup& group, Dims dims, size_t axis, const std::string& name,
             ThreadPool& pool, Of constant_of) {
  const DType missing = graph.type(group.members[0].epilogue.result).dtype;
  std::vector<Constant> parts;
  for (const ParallelContraction& m : group.members) {
    dims[axis] = m.width;
    const ValueId id = constant_of(m);
    const Constant part = id == no_value ? literal(Tensor(missing, dims)) : graph.constant(id);
    parts.push_back(derive_reshaped(part, dims, pool));
  }
  return graph.add_constant(name, derive(ops::Concat{static_cast<int64_t>(axis)}, parts, pool));
}

// The number that an operand of the epilogue is, which may be a constant of its own in each member.
ValueId common_number(Graph& graph, const ContractionGroup& group, size_t step, size_t operand, ThreadPool& pool) {
  const auto number_of = [&](const ParallelContraction& m) {
    return m.epilogue.steps[step].operands[operand].constant;
  };
  const ValueId first = number_of(group.members[0]);
  std::vector<Constant> all;
  for (const ParallelContraction& m : group.members)
    all.push_back(derive_reshaped(graph.constant(number_of(m)), graph.value(first).constant->dims(), pool));
  graph.value(first).provenance = Provenance::equal(all);
  return first;
}

}  // namespace

ValueId add_joined(Graph& graph, Rewriter& rewriter, const ContractionGroup& group, ThreadPool& pool) {
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
                               graph.value(first.weights).name, pool, [](const auto& m) { return m.weights; });
  std::vector<ValueId> inputs{rewriter.resolve(anchor.inputs[0]), weights};
  const bool sums_bytes = first.real != no_value;
  if (sums_bytes && anchor.inputs.size() > 2) inputs.push_back(rewriter.resolve(anchor.inputs[2]));
  if (first.scale != no_value) {
    const auto parameter = [&](const std::string& suffix, auto of) {
      inputs.push_back(
          join(graph, group, graph.value(of(first)).constant->dims(), group.axis, name + suffix, pool, of));
    };
    parameter(".scale", [](const auto& m) { return m.scale; });
    if (first.zero != no_value) {
      if (graph.shape(first.zero).empty()) {
        inputs.push_back(rewriter.resolve(first.zero));
      } else {
        parameter(".zero", [](const auto& m) { return m.zero; });
      }
    }
  }
  ValueId bias = no_value;
  for (const ParallelContraction& m : group.members)
    if (m.bias != no_value && bias == no_value)
      bias = join(graph, group, {0}, 0, name + ".bias", pool, [](const auto& each) { return each.bias; });
  const bool conv = anchor.op.as<ops::Conv>() != nullptr;
  if (conv && bias != no_value) inputs.push_back(bias);
  std::vector<ValueId> results{graph.add(anchor.op, inputs, name, sources)};
  if (sums_bytes && graph.type(results[0]).dtype != DType::f32)
    results[0] = graph.add(ops::Cast{DType::f32}, {results[0]}, name, sources);
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
        operands.push_back(common_number(graph, group, s, i, pool));
      } else {
        operands.push_back(join(graph, group, {0}, 0, name + ".columns", pool,
                                [&](const auto& m) { return m.epilogue.steps[s].operands[i].constant; }));
      }
    }
    results.push_back(graph.add(step.op, operands, name,
                                sources_of([&](const ParallelContraction& m) { return m.epilogue.nodes[s]; })));
  }
  return results.back();
}

}  // namespace camshaft
