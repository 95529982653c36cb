// Precisions that somebody asks of single layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/field.h"

namespace camshaft {

/// What a layer of a model is computed in.
enum class LayerPrecision : uint8_t { fp32, fp16, bf16, int8, fp8 };
template <>
struct EnumNames<LayerPrecision> {
  static constexpr std::string_view values[] = {"fp32", "fp16", "bf16", "int8", "fp8"};
};

/// The model's nodes of which a precision is asked.
struct PrecisionRule {
  std::string pattern;  ///< the name of a node, in which `*` stands for any text
  LayerPrecision precision = LayerPrecision::fp32;
  bool operator==(const PrecisionRule&) const = default;
};
/// Of "PATTERN:PRECISION"; a pattern may have colons. Throws Error(invalid_argument).
PrecisionRule parse_precision_rule(std::string_view text);

bool matches(std::string_view pattern, std::string_view name);

class PrecisionRules {
 public:
  PrecisionRules() = default;
  explicit PrecisionRules(std::vector<PrecisionRule> rules) : rules_(std::move(rules)) {}
  const std::vector<PrecisionRule>& rules() const { return rules_; }
  /// What is asked of a layer that was made of these nodes; nullopt: nothing. Rules for a name count before patterns,
  /// later ones before earlier ones; of the nodes that have one the widest counts.
  std::optional<LayerPrecision> of(const std::vector<std::string>& sources) const;
  /// Whether the layer may be computed in that.
  bool allows(const std::vector<std::string>& sources, LayerPrecision precision) const {
    const auto asked = of(sources);
    return !asked || *asked == precision;
  }

 private:
  std::optional<LayerPrecision> of_node(const std::string& name) const;

  std::vector<PrecisionRule> rules_;
};

}  // namespace camshaft
