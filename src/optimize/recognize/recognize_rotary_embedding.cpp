#include "optimize/recognize/recognize_rotary_embedding.h"

#include <map>

#include "ir/rewriter.h"
#include "optimize/analysis/match_rotary_embedding.h"

namespace camshaft {

void recognize_rotary_embedding(Graph& graph, const PassContext&) {
  std::map<ValueId, RotaryMatch> matches;
  {
    const Uses uses(graph);
    for (size_t n = 0; n < graph.nodes.size(); ++n)
      if (auto match = match_rotary_embedding(graph, uses, static_cast<int32_t>(n)))
        matches.emplace(graph.nodes[n].outputs[0], std::move(*match));
  }
  if (matches.empty()) return;
  Rewriter rewriter(graph);
  for (Node& node : rewriter.nodes()) {
    const auto found = node.outputs.size() == 1 ? matches.find(node.outputs[0]) : matches.end();
    if (found == matches.end()) {
      rewriter.keep(std::move(node));
      continue;
    }
    RotaryMatch& match = found->second;
    for (ValueId& id : match.inputs) id = rewriter.resolve(id);
    rewriter.replace(found->first, graph.add(std::move(match.op), std::move(match.inputs),
                                             graph.value(found->first).name, std::move(match.sources)));
  }
  rewriter.finish();
}

}  // namespace camshaft
