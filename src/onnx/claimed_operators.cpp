#include "onnx/claimed_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "onnx/converters.h"

namespace camshaft::onnx {

namespace {

using Name = std::pair<std::string, std::string>;  // domain, operator

struct ClaimedFunction {
  const FunctionProto* function = nullptr;
  std::string file, hash;
};

struct Claims {
  std::mutex mutex;
  std::map<Name, std::shared_ptr<const ScalarExpression>> expressions;
  std::map<Name, ClaimedFunction> functions;
};

Claims& claims() {
  static auto* const all = new Claims;
  return *all;
}

Name name_of(const std::string& domain, const std::string& name) {
  return {domain == "ai.onnx" ? "" : domain, name};
}

std::string full(const Name& name) {
  return name.first.empty() ? name.second : name.first + "::" + name.second;
}

/// `source` has the operator.
void check_not_claimed(const Claims& all, const Name& name, const std::string& source) {
  std::string of;
  if (const auto it = all.functions.find(name); it != all.functions.end()) of = it->second.file;
  if (const auto it = all.expressions.find(name); it != all.expressions.end())
    of = "the expression " + it->second->text;
  if (const auto plugin = find_plugin(name.first, name.second)) of = "the plugin " + plugin->file;
  if (!of.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} has the operator {}, which {} has brought already: one process can have one of them",
                            source, full(name), of));
}

/// The plugin of TensorRT's interfaces that the node means: its type is the plugin's name, in any domain; attributes
/// say the version and the namespace. camshaft/tensorrt/ makes operators of creators' names so.
std::shared_ptr<const PluginOperator> find_tensorrt_plugin(const NodeProto& node) {
  const auto text = [&](const char* name, const char* otherwise) {
    const AttributeProto* attribute = node.find_attribute(name);
    return attribute && attribute->type == AttributeType::string ? attribute->s : std::string(otherwise);
  };
  const std::string space = text("plugin_namespace", "");
  return find_plugin(space.empty() ? "tensorrt" : "tensorrt." + space,
                     fmt::format("{}.{}", node.op_type, text("plugin_version", "1")));
}

}  // namespace

Claim find_claim(const NodeProto& node) {
  Claim claim = find_claim(node.domain, node.op_type);
  const Converter* const own = find_converter(node.domain, node.op_type, newest_opset);
  // What is loaded goes before operators that stand for TensorRT's own plugins, too: LayerNorm is many a plugin's name.
  if (!claim && (!own || own == find_converter("TRT", node.op_type, newest_opset)))
    claim.plugin = find_tensorrt_plugin(node);
  return claim;
}

std::string loaded_alike(const NodeProto& node) {
  for (const auto& plugin : loaded_plugins()) {
    const bool is_tensorrt = plugin->domain == "tensorrt" || plugin->domain.starts_with("tensorrt.");
    if (is_tensorrt && plugin->name == fmt::format("{}.{}", node.op_type, plugin->version))
      return fmt::format(
          "{} is loaded, which a node means by the attributes plugin_version ('{}') and plugin_namespace ('{}')",
          plugin->full_name(), plugin->version,
          plugin->domain.substr(std::min(plugin->domain.size(), sizeof "tensorrt")));
    if (plugin->name == node.op_type) return plugin->full_name() + " is loaded, which is of another domain";
  }
  return "";
}

Claim find_claim(const std::string& domain, const std::string& op_type) {
  Claim claim;
  claim.plugin = find_plugin(domain, op_type);
  if (claim.plugin) return claim;
  Claims& all = claims();
  const Name name = name_of(domain, op_type);
  const std::lock_guard lock(all.mutex);
  if (const auto it = all.expressions.find(name); it != all.expressions.end()) claim.expression = it->second;
  if (const auto it = all.functions.find(name); it != all.functions.end()) claim.function = it->second.function;
  return claim;
}

std::optional<OperatorSchema> claimed_schema(const std::string& domain, const std::string& op_type) {
  using Count = OperatorParameter::Count;
  const Claim claim = find_claim(domain, op_type);
  if (!claim) return std::nullopt;
  OperatorSchema schema;
  schema.domain = domain;
  schema.op_type = op_type;
  if (claim.plugin) {
    schema.inputs = {{"inputs", "", Count::any}};
    schema.outputs = {{"outputs", "", Count::any}};
    schema.is_open = true;
  } else if (claim.expression) {
    for (const ScalarExpression::Parameter& parameter : claim.expression->parameters)
      if (parameter.otherwise) {
        schema.attributes.push_back({parameter.name, AttributeType::float_});
      } else {
        schema.inputs.push_back({parameter.name, "T"});
      }
    schema.outputs = {{"y", "T"}};
  } else {
    for (const std::string& input : claim.function->inputs) schema.inputs.push_back({input, "", Count::optional});
    for (const std::string& output : claim.function->outputs) schema.outputs.push_back({output, ""});
    schema.is_open = true;  // of what types its attributes are is not said
  }
  std::sort(schema.attributes.begin(), schema.attributes.end(),
            [](const OperatorAttribute& a, const OperatorAttribute& b) { return a.name < b.name; });
  return schema;
}

void check_free(const std::string& domain, const std::string& name, const std::string& source) {
  if (find_converter(domain, name, newest_opset))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} cannot bring the operator {}, which Camshaft has itself: give it a domain of your own",
                            source, full(name_of(domain, name))));
}

void check_free_for_plugin(const std::string& domain, const std::string& name, const std::string& source) {
  check_free(domain, name, source);
  if (find_plugin(domain, name)) return;  // add_plugin() knows whether it is the same one
  Claims& all = claims();
  const std::lock_guard lock(all.mutex);
  check_not_claimed(all, name_of(domain, name), "the plugin " + source);
}

void add_expression(ScalarExpression op) {
  check_free(op.domain, op.name, "an expression");
  Claims& all = claims();
  const Name name = name_of(op.domain, op.name);
  const std::lock_guard lock(all.mutex);
  if (const auto it = all.expressions.find(name); it != all.expressions.end() && it->second->text == op.text) return;
  check_not_claimed(all, name, "the expression " + op.text);
  all.expressions[name] = std::make_shared<const ScalarExpression>(std::move(op));
}

void add_functions(ModelProto library, const std::string& hash) {
  if (library.functions.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} has no functions: a library of operators is an ONNX model whose functions are used",
                            library.file));
  for (const FunctionProto& function : library.functions) check_free(function.domain, function.name, library.file);
  Claims& all = claims();
  const std::lock_guard lock(all.mutex);
  const auto is_there = [&](const FunctionProto& function) {
    const auto it = all.functions.find(name_of(function.domain, function.name));
    return it != all.functions.end() && it->second.hash == hash;
  };
  if (std::all_of(library.functions.begin(), library.functions.end(), is_there)) return;
  for (const FunctionProto& function : library.functions)
    check_not_claimed(all, name_of(function.domain, function.name), library.file);
  const auto* const kept = new ModelProto(std::move(library));  // models refer to it as long as the process runs
  for (const FunctionProto& function : kept->functions)
    all.functions[name_of(function.domain, function.name)] = {&function, kept->file, hash};
}

std::vector<ClaimedName> claimed_names() {
  Claims& all = claims();
  const std::lock_guard lock(all.mutex);
  std::vector<ClaimedName> names;
  for (const auto& [name, expression] : all.expressions) names.push_back({full(name), expression->text, false});
  for (const auto& [name, claimed] : all.functions) names.push_back({full(name), claimed.file, true});
  return names;
}

}  // namespace camshaft::onnx
