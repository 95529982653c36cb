#include "optimize/recognize/recognize_attention.h"

#include <fmt/format.h>

#include <map>

#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"
#include "optimize/analysis/match_attention.h"
#include "optimize/canonicalize/fold_constants.h"

namespace camshaft {

void recognize_attention(Graph& graph, const PassContext& context) {
  std::map<ValueId, AttentionMatch> matches;
  {
    const Uses uses(graph);
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (!graph.nodes[n].op.as<ops::Softmax>()) continue;
      std::string reason;
      if (auto match = match_attention(graph, uses, static_cast<int32_t>(n), reason)) {
        const ValueId result = match->result;
        matches.emplace(result, std::move(*match));
      } else if (context.notes && !reason.empty()) {
        (*context.notes)[graph.value(graph.nodes[n].outputs[0]).name].push_back(
            fmt::format("not one attention with the products around it: {}", reason));
      }
    }
  }
  if (matches.empty()) return;
  bool changes_constants = false;
  Rewriter rewriter(graph);
  for (Node& node : rewriter.nodes()) {
    const auto found = node.outputs.size() == 1 ? matches.find(node.outputs[0]) : matches.end();
    if (found == matches.end()) {
      rewriter.keep(std::move(node));
      continue;
    }
    AttentionMatch& match = found->second;
    for (ValueId& id : match.inputs) id = rewriter.resolve(id);
    if (match.factor != no_value) {
      ValueId& scaled = match.inputs[match.factor_of];
      scaled = graph.add(ops::Pointwise{ScalarFunction::mul}, {scaled, match.factor},
                         graph.value(scaled).name + ".scaled", match.sources);
    }
    for (size_t i = 0; i < match.changes.size(); ++i) {
      ValueId& mask = match.inputs[3 + i];
      const DType dtype = graph.type(mask).dtype;
      const bool is_bool = dtype == DType::boolean,
                 changes = is_bool ? match.changes[i].inverted : match.changes[i].factor != 1;
      if (!changes) continue;
      changes_constants |= graph.is_constant(mask);
      std::vector<ValueId> operands{mask};
      if (!is_bool)
        operands.push_back(add_scalar_read_off(graph, dtype, match.changes[i].factor,
                                               "the factor of a mask, read off what is done to scores"));
      // By the model's own name the layer before would be judged by it.
      mask = graph.add(ops::Pointwise{is_bool ? ScalarFunction::logical_not : ScalarFunction::mul}, std::move(operands),
                       graph.value(mask).name + (is_bool ? ".inverted" : ".scaled"), match.sources);
    }
    rewriter.replace(found->first, graph.add(std::move(match.op), std::move(match.inputs),
                                             graph.value(found->first).name, std::move(match.sources)));
  }
  rewriter.finish();
  if (changes_constants) fold_constants(graph, context);
}

}  // namespace camshaft
