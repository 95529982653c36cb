#include "builder/simplify_model.h"

#include "optimize/canonicalize/canonicalization.h"
#include "optimize/canonicalize/unstack_reductions.h"
#include "optimize/pipeline.h"
#include "optimize/precision/keep_activations.h"

namespace camshaft {

namespace {

/// Canonical form without what is only of use to kernels: a reduction of a stack becomes several nodes that fuse.
PassStep shortest_form() {
  PassStep step = canonicalization();
  std::erase_if(step.passes, [](const Pass& pass) { return pass.name == unstack_reductions_pass.name; });
  return step;
}

}  // namespace

void simplify_model(const std::filesystem::path& model, const std::filesystem::path& output,
                    const BuildOptions& options, bool external_data, RewriteReport& report) {
  const auto run = [](Graph& graph, const PassContext& context) {
    run_passes(graph, {keep_activations_pass}, context);
    Graph before = graph;
    run_passes_with_branches(graph, {shortest_form()}, context);
    return before;
  };
  rewrite_model(model, output, options, external_data, {"simplifying", "simplified", run, {}, true}, report);
}

}  // namespace camshaft
