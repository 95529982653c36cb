#include "builder/simplify_model.h"

#include "optimize/canonicalize/canonicalization.h"
#include "optimize/pipeline.h"

namespace camshaft {

void simplify_model(const std::filesystem::path& model, const std::filesystem::path& output,
                    const BuildOptions& options, bool external_data, RewriteReport& report) {
  const auto run = [](Graph& graph, const PassContext& context) {
    Graph before = graph;
    run_passes_with_branches(graph, {canonicalization()}, context);
    return before;
  };
  rewrite_model(model, output, options, external_data, {"simplifying", "simplified", run}, report);
}

}  // namespace camshaft
