#include "optimize/precision/keep_activations.h"

#include "ir/ops/quantized.h"
#include "ir/rewriter.h"

namespace camshaft {

void keep_activations(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  for (Node& node : rewriter.nodes()) {
    rewriter.resolve(node);
    for (Graph& body : node.bodies) keep_activations(body, context);
    if (node.op.as<ops::RoundBlocks>()) {
      rewriter.replace(node.outputs[0], node.inputs[0]);
    } else {
      rewriter.keep(std::move(node));
    }
  }
  rewriter.finish();
}

}  // namespace camshaft
