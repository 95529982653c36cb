#include "ir/ops/plugin.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "ir/compiled_plugin.h"
#include "ir/ops/shape_rules.h"
#include "ir/symbols.h"

namespace camshaft::ops {

namespace {

// Shape rules are asked in every pass: what they need is made once. Beyond so many, those that no kernel holds go.
constexpr size_t most_idle = 256;

struct Instances {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const PluginInstance>> by_key;
};

Instances& instances() {
  static auto* const all = new Instances;
  return *all;
}

std::string to_hex(const std::string& bytes) {
  std::string digits;
  for (const char c : bytes) digits += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return digits;
}

std::string from_hex(const std::string& digits) {
  const auto value = [&](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    fail_rule("the state of a plugin is no row of hexadecimal digits");
  };
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(value(digits[i]) * 16 + value(digits[i + 1]));
  return bytes;
}

/// Of a library by its file's name, of others by what the program called them that registered them.
std::string how_to_load(const std::string& file) {
  if (!file.ends_with(".so") && file.find(".so.") == std::string::npos)
    return fmt::format("a program registered it, as one does that imports the Python module of {} first", file);
  return fmt::format(
      "load it first (--plugin {} or load_plugin; --ort-custom-ops or load_ort_custom_ops if it is one for ONNX "
      "Runtime)",
      file);
}

/// The operator that the node was made with; null where it is not loaded, or another one is.
std::shared_ptr<const PluginOperator> same_plugin(const Plugin& op) {
  return find_plugin(op.operator_name, op.version, op.hash);
}

std::shared_ptr<const PluginOperator> loaded(const Plugin& op) {
  if (auto plugin = same_plugin(op)) return plugin;
  const auto plugin = find_plugin(op.operator_name);
  if (!plugin)
    throw MissingPlugin(
        fmt::format("the operator {} (version {}, of {}, hash {}) comes from a plugin that is not loaded: {}",
                    op.operator_name, op.version, op.file, op.hash, how_to_load(op.file)));
  throw MissingPlugin(
      fmt::format("the operator {} was built with version {} of {} (hash {}); version {} of {} (hash {}) is loaded: "
                  "load that one (--plugin), or build the engine again",
                  op.operator_name, op.version, op.file, op.hash, plugin->version, plugin->file, plugin->hash));
}

}  // namespace

namespace {

std::vector<PluginAttribute> without_kernels(std::vector<PluginAttribute> attributes) {
  std::erase_if(attributes, [](const PluginAttribute& a) { return a.name.starts_with(compiled_note_prefix); });
  return attributes;
}

/// The instance of a node that is made for the first time.
std::shared_ptr<const PluginInstance> made_instance(const Plugin& op) {
  PluginNode node;
  for (const std::string& attribute : op.attributes) node.attributes.push_back(decode_attribute(attribute));
  const std::string bytes = from_hex(op.state);
  node.state = &bytes;
  std::optional<CompiledPlugin> compiled = decode_compiled(node.attributes);
  if (!compiled) return loaded(op)->create(node);
  // The engine has its kernels: the plugin itself, where it is there, is what they are verified against.
  const std::shared_ptr<const PluginOperator> plugin = compiled->has_own_body ? same_plugin(op) : nullptr;
  node.attributes = without_kernels(std::move(node.attributes));
  return make_compiled_instance(std::move(*compiled), fmt::format("the plugin {} ({})", op.operator_name, op.file),
                                plugin ? plugin->create(node) : nullptr);
}

}  // namespace

std::shared_ptr<const PluginInstance> Plugin::instance() const {
  std::string key = operator_name + '\0' + version + '\0' + hash + '\0' + state;
  for (const std::string& attribute : attributes) key += '\0' + attribute;
  // A compiled node's instance is another one once its plugin is loaded.
  key += same_plugin(*this) ? '+' : '-';
  Instances& all = instances();
  {
    const std::lock_guard lock(all.mutex);
    if (const auto it = all.by_key.find(key); it != all.by_key.end()) return it->second;
  }
  // Made, and freed, without the lock: a plugin in Python waits for the interpreter's.
  std::shared_ptr<const PluginInstance> made = made_instance(*this);
  std::vector<std::shared_ptr<const PluginInstance>> freed;
  const std::lock_guard lock(all.mutex);
  if (all.by_key.size() >= most_idle)
    std::erase_if(all.by_key, [&](auto& entry) {
      if (entry.second.use_count() > 1) return false;
      freed.push_back(std::move(entry.second));
      return true;
    });
  return all.by_key.try_emplace(key, std::move(made)).first->second;
}

std::vector<Inferred> Plugin::infer(const InferContext& context) const {
  std::vector<Inferred> results;
  for (TensorType& type : instance()->infer(context)) results.push_back({std::move(type)});
  return results;
}

Plugin make_plugin(const PluginOperator& plugin, const std::vector<PluginAttribute>& attributes) {
  Plugin op{plugin.full_name(), plugin.version, plugin.file, plugin.hash, {}, {}};
  for (const PluginAttribute& attribute : attributes) op.attributes.push_back(encode(attribute));
  op.state = to_hex(plugin.create({without_kernels(attributes), nullptr})->state());
  return op;
}

void check_rule(const Plugin& op, const std::vector<TensorType>& inputs, const std::vector<bool>& present,
                const std::vector<std::shared_ptr<const Tensor>>& constants, const std::vector<TensorType>& outputs) {
  std::vector<Value> values(inputs.size());
  std::vector<const Value*> operands;
  for (size_t i = 0; i < inputs.size(); ++i) {
    values[i].type = inputs[i];
    if (i < constants.size() && constants[i]) {
      values[i].constant = constants[i];
      values[i].content = constant_content(*constants[i]);
    }
    operands.push_back(present[i] ? &values[i] : nullptr);
  }
  std::vector<std::string> names;
  for (size_t o = 0; o < outputs.size(); ++o) names.push_back(fmt::format("output{}", o));
  const std::vector<TensorType> again = op.instance()->infer(InferContext(operands, names, nullptr));
  for (size_t o = 0; o < outputs.size(); ++o) {
    bool differs = again[o].dtype != outputs[o].dtype || again[o].shape.size() != outputs[o].shape.size();
    for (size_t axis = 0; !differs && axis < outputs[o].shape.size(); ++axis)
      differs = provably_different(again[o].shape[axis], outputs[o].shape[axis]);
    if (differs)
      throw PluginViolation(fmt::format(
          "the shape rule of the plugin {} ({}) contradicts itself: output {} is {} for these sizes, and {} "
          "by its expressions",
          op.operator_name, op.file, o, to_string(again[o]), to_string(outputs[o])));
  }
}

}  // namespace camshaft::ops
