#include "builder/compile_graph.h"

#include <fmt/format.h>

#include "compile/lower.h"
#include "compile/region/layer_borders.h"
#include "runtime/engine_impl.h"

namespace camshaft {

namespace {

void note_further(const TacticDecision& decision, LayerExplanation& explanation) {
  for (size_t p = 0; p < decision.further.size(); ++p) {
    const FurtherTactic& further = decision.further[p];
    if (further.tactic.empty()) continue;
    const auto microseconds = [](int64_t ns) { return 1e-3 * static_cast<double>(ns); };
    std::string note = fmt::format("at the sizes of profile {}: {}", p + 1, further.tactic);
    if (further.ns > 0)
      note += fmt::format(", {:.1f} us there ({:.1f} with that of profile 0)", microseconds(further.ns),
                          microseconds(further.ns_with_first));
    explanation.notes.push_back(std::move(note));
  }
}

}  // namespace

Engine compile_graph(Graph graph, std::shared_ptr<const Backend> backend, const CompileOptions& options) {
  const auto impl = std::make_shared<Engine::Impl>();
  impl->backend = std::move(backend);
  impl->graph = std::move(graph);
  for (const Profile& profile : options.profiles) check_profile(impl->graph, profile);
  if (!options.profiles.empty()) impl->optimum = bind_profile(impl->graph, options.profiles.front());
  impl->profiles = options.profiles;
  impl->metadata = options.metadata;
  impl->initializers = options.initializers;
  impl->saves_stripped = options.strip_weights;
  impl->packed = std::make_shared<PackedConstants>();
  impl->packed->set_unpack([device = impl->backend](const PackedConstant& p, DType dtype, const Dims& dims) {
    return device->unpack(p, dtype, dims);
  });
  LowerOptions lowering;
  lowering.symbols = impl->optimum;
  lowering.further_symbols = bind_further_profiles(impl->graph, impl->profiles);
  lowering.most_deviation = options.most_deviation;
  lowering.cancellation = options.cancellation;
  for (size_t n = 0; n < options.decisions.size(); ++n) {
    lowering.tactics.push_back(options.decisions[n].choice());
    LayerExplanation& explanation = impl->explanations.emplace_back();
    explanation.tried = options.decisions[n].tried;
    note_further(options.decisions[n], explanation);
    for (const ValueId id : impl->graph.nodes[n].outputs)
      if (const auto notes = options.notes.find(impl->graph.value(id).name); notes != options.notes.end())
        explanation.notes.insert(explanation.notes.end(), notes->second.begin(), notes->second.end());
  }
  impl->plan = lower(impl->graph, *impl->backend, *impl->packed, lowering);
  if (!impl->explanations.empty()) note_borders(impl->plan, impl->explanations);
  impl->finish();
  return Engine(impl);
}

}  // namespace camshaft
