// An operator that a plugin brings.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/plugin.h"

namespace camshaft::ops {

/// (operands…) -> what the plugin computes. `operator_name` is PluginOperator::full_name(); `version` and `hash` are
/// those of the one that the node was made with, which no other may stand in for. `attributes` as encode() gives them,
/// `state` what the instance gave, in hexadecimal digits.
///
/// All functions throw MissingPlugin while that operator is not loaded, but for nodes whose kernels were compiled ahead
/// of time (ir/compiled_plugin.h): these run on GPUs without it.
struct Plugin {
  static constexpr std::string_view name = "plugin";
  static constexpr Traits traits = opaque_traits;
  std::string operator_name, version, file, hash;
  std::vector<std::string> attributes;
  std::string state;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("operator", self.operator_name);
    visit("version", self.version);
    visit("file", self.file);
    visit("hash", self.hash);
    visit("attributes", self.attributes);
    visit("state", self.state);
  }
  bool operator==(const Plugin&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;

  /// Shared by equal nodes.
  std::shared_ptr<const PluginInstance> instance() const;
};

/// The operator of a node of a model, with the state that its instance has.
Plugin make_plugin(const PluginOperator& plugin, const std::vector<PluginAttribute>& attributes);

/// What the rule says of results of these sizes must be what it said of symbols: throws Error(invalid_argument) for a
/// rule that contradicts itself. `constants` are the operands whose elements are known, or null.
void check_rule(const Plugin& op, const std::vector<TensorType>& inputs, const std::vector<bool>& present,
                const std::vector<std::shared_ptr<const Tensor>>& constants, const std::vector<TensorType>& outputs);

}  // namespace camshaft::ops
