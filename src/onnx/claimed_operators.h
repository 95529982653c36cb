// Operators that models may use beside those of ONNX: of plugins, as expressions, and as libraries of ONNX functions.
// They are loaded for the whole process.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/plugin.h"
#include "onnx/operator_schema.h"
#include "onnx/scalar_expression.h"

namespace camshaft::onnx {

/// What a node means by what is loaded: one of these, or none.
struct Claim {
  std::shared_ptr<const PluginOperator> plugin;
  std::shared_ptr<const ScalarExpression> expression;
  const FunctionProto* function = nullptr;  ///< valid for ever
  explicit operator bool() const { return plugin || expression || function; }
};

Claim find_claim(const NodeProto& node);
/// Of a node that nothing claims: which plugin of its name is loaded, and what the node lacks to mean it; empty: none.
std::string loaded_alike(const NodeProto& node);
Claim find_claim(const std::string& domain, const std::string& op_type);

/// What nodes of a loaded operator take, as far as is known; nothing for others.
std::optional<OperatorSchema> claimed_schema(const std::string& domain, const std::string& op_type);

/// Error(invalid_argument) where the operator is known already with another meaning, as ONNX's own are.
void add_expression(ScalarExpression op);
/// All functions of a model, whose bytes have that hash. Like above.
void add_functions(ModelProto library, const std::string& hash);
/// Throws Error(invalid_argument) naming `source` where an operator of this name cannot be added: Camshaft has it.
void check_free(const std::string& domain, const std::string& name, const std::string& source);

/// Throws Error(invalid_argument) naming `source` where a plugin's operator of this name cannot be added: Camshaft has
/// it (as above), or an expression or a function of it is loaded. Which one nodes mean would go by the order.
void check_free_for_plugin(const std::string& domain, const std::string& name, const std::string& source);

/// An expression or a function that is loaded.
struct ClaimedName {
  std::string name;  ///< "my::Gelu"
  std::string file;  ///< of a function; the text of an expression
  bool is_function = false;
};
std::vector<ClaimedName> claimed_names();

/// Appends the node of a plugin's operator.
Values convert_plugin(ConvertContext& c, const PluginOperator& plugin);

}  // namespace camshaft::onnx
