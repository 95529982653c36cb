// Why the layers of an engine are as they are.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "camshaft/engine.hpp"

namespace camshaft::tools {

/// A paragraph a layer: what it computes, the model's nodes in it, its tactic, what else was tried, and why it was not
/// fused with its neighbours.
std::string explain(const Engine& engine);

/// Why a layer has the tactic that it has; empty where the engine does not say what was tried.
std::string why(const LayerInfo& layer);

/// [{tactic, estimated_ns, measured_ns or null, refused}]
nlohmann::json to_json(const std::vector<TacticTrial>& tried);

}  // namespace camshaft::tools
