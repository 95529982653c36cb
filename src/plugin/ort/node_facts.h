// What kernels of ONNX Runtime's custom operators may ask of their node beside its attributes. It is noted when the
// model is read, and engines keep it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/plugin_notes.h"
#include "plugin/ort/abi.h"

namespace camshaft::ort {

struct OperandFacts {
  bool present = true;
  std::string name;
  ElementType type = undefined_element;
  bool has_shape = false;
  /// Numbers, or texts of sizes that the model leaves open; "" for one that only running tells.
  std::vector<std::string> dims = {};
  std::string constant = {};  ///< hash of the elements of a constant; "" for what is none
};

struct NodeFacts {
  std::string name;     ///< of the node
  int64_t version = 0;  ///< of the operator set of its domain
  std::vector<OperandFacts> inputs, outputs;
};

/// As attributes that the node keeps, named with plugin_note_prefix, …
std::vector<PluginAttribute> to_notes(const NodeFacts& facts);
/// … and back. Throws Error(invalid_argument) where they are missing or malformed.
NodeFacts from_notes(const std::vector<PluginAttribute>& attributes);

/// Whether the text of a size is a number.
bool is_number(const std::string& dim, int64_t& value);

}  // namespace camshaft::ort
