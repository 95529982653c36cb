#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "ir/text.h"
#include "ir/text_internal.h"

namespace camshaft {

namespace {

using text_detail::quote;

std::string value_name(const std::string& name) {
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), text_detail::is_name_char);
  return "%" + (plain ? name : quote(name));
}

uint64_t hash(const Tensor& tensor) {
  if (tensor.dtype() != DType::string) return hash64(tensor.span());
  Hasher hasher;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    hasher.add(tensor.as<std::string>()[i]);
    hasher.add(std::string_view("\0", 1));
  }
  return hasher.hash64();
}

std::string elements(const Tensor& tensor, int64_t most) {
  if (tensor.is_elided()) return fmt::format("<{} bytes, packed>", tensor.bytes());
  if (tensor.rank() == 0 || text_detail::is_uniform(tensor)) return text_detail::element(tensor, 0);
  if (most >= 0 && tensor.size() > most)
    return fmt::format("<{} bytes, hash {}>", tensor.bytes(), to_hex(hash(tensor)));
  std::string out = "[";
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (i > 0) out += ", ";
    out += text_detail::element(tensor, i);
  }
  return out + "]";
}

class GraphPrinter {
 public:
  GraphPrinter(const Graph& graph, const PrintOptions& options, int indent)
      : graph_(graph), options_(options), indent_(static_cast<size_t>(indent), ' ') {}

  std::string print() {
    out_ = "graph ";
    if (!graph_.name.empty()) out_ += quote(graph_.name) + " ";
    out_ += "(" + join(graph_.inputs, [&](ValueId id) { return typed(id); }) + ") {\n";
    for (const Value& value : graph_.values)
      if (value.constant) line("const " + typed(value) + " = " + constant(value));
    for (const Node& node : graph_.nodes) line(text(node));
    std::string results;
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      results += i ? ", " : " ";
      const bool same = valid(graph_.outputs[i]) && i < graph_.output_names.size() &&
                        graph_.value(graph_.outputs[i]).name == graph_.output_names[i];
      if (!same && i < graph_.output_names.size()) results += quote(graph_.output_names[i]) + " = ";
      results += name(graph_.outputs[i]);
    }
    line("return" + results);
    return out_ + indent_ + "}";
  }

 private:
  void line(const std::string& text) { out_ += indent_ + "  " + text + "\n"; }

  // Also prints graphs that the verifier would refuse: that is when one wants to see them.
  bool valid(ValueId id) const { return id >= 0 && static_cast<size_t>(id) < graph_.values.size(); }
  std::string name(ValueId id) const {
    if (id == no_value) return "-";
    return valid(id) ? value_name(graph_.value(id).name) : fmt::format("<no value {}>", id);
  }
  std::string typed(ValueId id) const { return valid(id) ? typed(graph_.value(id)) : name(id); }
  std::string typed(const Value& value) const { return value_name(value.name) + ": " + to_string(value.type); }
  std::string constant(const Value& value) const {
    return value.constant->defined() ? elements(*value.constant, options_.max_constant_elements) : "<undefined>";
  }

  template <class Items, class Print>
  static std::string join(const Items& items, const Print& print) {
    std::string out;
    for (const auto& item : items) out += (out.empty() ? "" : ", ") + print(item);
    return out;
  }

  std::string text(const Node& node) const {
    std::string out = join(node.outputs, [&](ValueId id) { return typed(id); });
    out += " = " + to_string(node.op) + " (" + join(node.inputs, [&](ValueId id) { return name(id); }) + ")";
    if (options_.sources && !node.sources.empty()) out += " from " + join(node.sources, quote);
    const int deeper = static_cast<int>(indent_.size()) + 4;
    for (const Graph& body : node.bodies)
      out += "\n" + std::string(static_cast<size_t>(deeper), ' ') + GraphPrinter(body, options_, deeper).print();
    return out;
  }

  const Graph& graph_;
  const PrintOptions& options_;
  std::string indent_;
  std::string out_;
};

}  // namespace

std::string print(const Graph& graph, const PrintOptions& options) {
  return GraphPrinter(graph, options, 0).print() + "\n";
}

}  // namespace camshaft
