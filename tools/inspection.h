// What an engine consists of, as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/open_engine.h"

namespace camshaft::tools {

/// The dtype that a layer computes: of its first output, "name: f32[batch, 64]".
std::string precision(const LayerInfo& layer);

/// {path, kind, inputs, outputs, profiles, metadata, memory, weight_streaming, layers}
nlohmann::json inspection(const std::string& path, const OpenedEngine& opened);

}  // namespace camshaft::tools
