// What operators from outside may note of a node when its model is read, beside the node's attributes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/plugin.h"

namespace camshaft {

/// Attributes whose names begin so are no attributes of the ONNX node, but notes.
constexpr std::string_view plugin_note_prefix = "camshaft.";

/// What a model says of a node.
struct PluginModelNode {
  struct Operand {
    bool present = true;
    std::string name;  ///< in the model
    bool has_type = false, has_shape = false;
    DType dtype = DType::f32;
    Shape shape = {};
    std::vector<bool> is_open = {};  ///< of outputs: sizes that the model gives neither number nor name
    /// Of inputs: null for what is no constant. A refit cannot replace what was asked for.
    std::function<std::shared_ptr<const Tensor>()> constant = {};
  };
  std::string name;
  int64_t opset = 0;  ///< version of the operator set of its domain
  std::span<const PluginAttribute> attributes;
  std::vector<Operand> inputs, outputs;
};

/// A PluginOperator may be one of these, too.
class PluginNoteTaker {
 public:
  virtual ~PluginNoteTaker() = default;
  /// What instances need to know of their node, as attributes that engines keep and create() gets: their names begin
  /// with plugin_note_prefix. Called once for a node, when the model is read. Throws Error.
  virtual std::vector<PluginAttribute> notes(const PluginModelNode& node) const = 0;
};

}  // namespace camshaft
