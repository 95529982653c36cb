// What PEFT's adapter_config.json says of an adapter of LoRA.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace camshaft::onnx {

struct LoraConfig {
  std::optional<double> alpha;  ///< nothing: there is no file, and the scale is 1
  /// Other ones, by the ends of modules' paths; the first that fits counts.
  std::vector<std::pair<std::string, double>> alpha_pattern;
  bool by_root = false;  ///< use_rslora: over the root of the rank

  /// Of a module's update of that rank.
  double scale(const std::string& module, int64_t rank) const;
};

/// Reads the file in that folder, if there is one. Throws Error(invalid_model) for a damaged one, and
/// Error(unsupported) for an adapter that is not plain LoRA; both name the file.
LoraConfig read_lora_config(const std::filesystem::path& folder);

}  // namespace camshaft::onnx
