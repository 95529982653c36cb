#include "tools/explain.h"

#include <fmt/format.h>

#include "tools/report.h"
#include "tools/tensor_text.h"

namespace camshaft::tools {

namespace {

std::string times_of(const TacticTrial& trial) {
  const std::string estimate =
      fmt::format("estimated {}", format_seconds(static_cast<double>(trial.estimated_ns) * 1e-9));
  if (trial.measured_ns < 0) return estimate;
  return fmt::format("measured {}, {}", format_seconds(static_cast<double>(trial.measured_ns) * 1e-9), estimate);
}

std::string line(const char* label, const std::string& text) {
  return text.empty() ? "" : fmt::format("  {:9} {}\n", label, text);
}

// A lock file may choose what this machine's tuner would not have: it may be of another one, or edited.
const char* why_of(const LayerInfo& layer, const TacticTrial& chosen) {
  if (layer.tried.size() == 1) return "the only one";
  const bool measured = chosen.measured_ns >= 0;
  for (const TacticTrial& trial : layer.tried) {
    if (trial.refused) continue;
    const bool better = measured ? trial.measured_ns >= 0 && static_cast<double>(chosen.measured_ns) >
                                                                 1.02 * static_cast<double>(trial.measured_ns) + 1
                                 : trial.measured_ns >= 0 || trial.estimated_ns < chosen.estimated_ns;
    if (better) return "not the best known: the lock file's choice";
  }
  return measured ? "the fastest measured, or within 2 % of it, 5 with smaller weights" : "the cheapest estimate";
}

// Null where it is not known what was tried.
const TacticTrial* chosen_of(const LayerInfo& layer) {
  for (const TacticTrial& trial : layer.tried)
    if (trial.tactic == layer.tactic) return &trial;
  return nullptr;
}

std::string tactic_text(const LayerInfo& layer) {
  const TacticTrial* chosen = chosen_of(layer);
  if (chosen == nullptr) return layer.tactic;
  return fmt::format("{}: {} ({})", layer.tactic, times_of(*chosen), why_of(layer, *chosen));
}

std::string explain(size_t index, const LayerInfo& layer) {
  std::string text = fmt::format("layer {}: {} ({})\n", index, layer.name, layer.op);
  text += line("computes", layer.description);
  text += line("nodes", layer.sources.empty() ? "none of the model's: the optimiser made it" : join(layer.sources));
  text += line("result", join(layer.outputs));
  text += line("tactic", tactic_text(layer));
  for (const TacticTrial& trial : layer.tried)
    if (trial.tactic != layer.tactic)
      text += line("tried", fmt::format("{}: {}{}", trial.tactic, times_of(trial),
                                        trial.refused           ? ", refused: rounds more than this build may"
                                        : trial.measured_ns < 0 ? ", not measured"
                                                                : ""));
  for (const std::string& note : layer.notes) text += line("apart", note);
  return text;
}

}  // namespace

std::string explain(const Engine& engine) {
  std::string text;
  const auto tuning = engine.metadata().find("tuning");
  if (tuning != engine.metadata().end()) text += fmt::format("tuning: {}\n", tuning->second);
  const std::vector<LayerInfo> layers = engine.layers();
  for (size_t i = 0; i < layers.size(); ++i) text += explain(i, layers[i]);
  return text;
}

std::string why(const LayerInfo& layer) {
  const TacticTrial* chosen = chosen_of(layer);
  return chosen == nullptr ? "" : why_of(layer, *chosen);
}

nlohmann::json to_json(const std::vector<TacticTrial>& tried) {
  nlohmann::json list = nlohmann::json::array();
  for (const TacticTrial& trial : tried)
    list.push_back({{"tactic", trial.tactic},
                    {"estimated_ns", trial.estimated_ns},
                    {"measured_ns", trial.measured_ns < 0 ? nlohmann::json() : nlohmann::json(trial.measured_ns)},
                    {"refused", trial.refused}});
  return list;
}

}  // namespace camshaft::tools
