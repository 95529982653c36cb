// Types that a model declares, as types of the graph.
#pragma once

#include <string>
#include <unordered_map>

#include "ir/op.h"
#include "onnx/proto.h"

namespace camshaft::onnx {

/// The types of value_infos and outputs, by name. They point into the model. Trusted only where nothing else tells.
using DeclaredTypes = std::unordered_map<std::string, const TypeProto*>;

/// What a container declares of its elements. Sizes without a number are unknown, whatever their name: nothing would
/// give the name a value. Throws Error(unsupported) for sparse tensors and element types that Camshaft lacks, and
/// Error(invalid_model) for a missing type; `where` begins the message.
TensorType element_type_from(const TypeProto& type, const std::string& where);

/// Error(invalid_model) for more axes than a value may have; `where` begins the message.
void check_axes(size_t count, const std::string& where);

/// Whether `param` names a size: not what exporters write where they know neither size nor name ("", "?", "-1",
/// "None"), nor with '@', as names of sizes that running tells begin.
bool is_size_name(const std::string& param);

/// What the symbols for the sizes of the input `name` begin with: not with '@', as those of sizes that running tells.
std::string symbol_base(const std::string& name);

/// A value of a sequence, optional or map type; a sequence's length is the symbol "name.0".
TensorType container_type_from(const TypeProto& type, const std::string& name, const std::string& where);

}  // namespace camshaft::onnx
