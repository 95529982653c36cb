#include "optimize/recognize_attention.h"

#include <map>

#include "graph/rewriter.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "optimize/match_attention.h"

namespace camshaft {

void recognize_attention(Graph& graph, const PassContext&) {
  std::map<ValueId, AttentionMatch> matches;
  {
    const Uses uses(graph);
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (!graph.nodes[n].op.as<ops::Softmax>()) continue;
      if (auto match = match_attention(graph, uses, static_cast<int32_t>(n))) {
        const ValueId result = match->result;
        matches.emplace(result, std::move(*match));
      }
    }
  }
  if (matches.empty()) return;
  Rewriter rewriter(graph);
  for (Node& node : rewriter.nodes()) {
    const auto found = node.outputs.size() == 1 ? matches.find(node.outputs[0]) : matches.end();
    if (found == matches.end()) {
      rewriter.keep(std::move(node));
      continue;
    }
    AttentionMatch& match = found->second;
    for (ValueId& id : match.inputs) id = rewriter.resolve(id);
    for (size_t i = 0; i < match.inverted.size(); ++i) {
      ValueId& mask = match.inputs[3 + i];
      if (match.inverted[i])
        mask = graph.add(ops::Pointwise{ScalarFunction::logical_not}, {mask}, graph.value(mask).name, match.sources);
    }
    rewriter.replace(found->first, graph.add(std::move(match.op), std::move(match.inputs),
                                             graph.value(found->first).name, std::move(match.sources)));
  }
  rewriter.finish();
}

}  // namespace camshaft
