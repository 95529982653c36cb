// What commands print in the same way: as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "camshaft/builder.hpp"
#include "camshaft/engine.hpp"

namespace camshaft::tools {

/// Rows of cells in aligned columns, two spaces apart; the columns named in `right` are aligned to the right.
std::string format_table(const std::vector<std::vector<std::string>>& rows, const std::vector<size_t>& right = {});

/// A line for each output: "output 'y': worst error 1.2e-06 of its scale 3.4: passed".
std::string format_errors(const std::vector<OutputError>& errors);
nlohmann::json to_json(const std::vector<OutputError>& errors);
nlohmann::json to_json(const std::vector<LayerPlacement>& layers);
nlohmann::json to_json(const std::vector<PrecisionGain>& gains);

/// How an engine was judged whose outputs cannot tell; empty where they can.
std::string format_layers(const BuildReport& report);

/// {name, dtype, shape: [numbers and symbols]}
nlohmann::json to_json(const TensorInfo& info);
nlohmann::json to_json(const MemoryInfo& memory);
nlohmann::json to_json(const Profile& profile);

/// "arena 1.2 MiB (lower bound 1.1 MiB), weights 10.3 MiB"
std::string format_memory(const MemoryInfo& memory);

/// "budget 1.0 GiB of 3.9 GiB: 0.8 GiB stay, 3.1 GiB come in for each run through 0.2 GiB; at least 0.1 GiB, auto 3.9
/// GiB".
std::string format_streaming(const WeightStreaming& streaming);
nlohmann::json to_json(const WeightStreaming& streaming);

/// JSON for people, on stdout. Bytes that are no UTF-8 (names may hold any) are replaced.
void print_json(const nlohmann::json& json);

/// Items with a comma between.
std::string join(const std::vector<std::string>& items);

}  // namespace camshaft::tools
