#include "ir/verify.h"

#include <fmt/format.h>

#include <unordered_set>

#include "ir/container_type.h"

namespace camshaft {

namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, std::string after, bool is_body)
      : graph_(graph), after_(std::move(after)), is_body_(is_body) {}

  void run() {
    defined_.assign(graph_.values.size(), false);
    check_values();
    for (const ValueId id : graph_.inputs) define(id, "an input");
    for (const Node& node : graph_.nodes) check_node(node);
    check_outputs();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::internal, fmt::format("invalid graph after {}: {}", after_, what));
  }

  void check_values() {
    std::unordered_set<std::string> names;
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (!names.insert(value.name).second) fail(fmt::format("two values are named '{}'", value.name));
      if (const std::string wrong = malformed(value.type); !wrong.empty())
        fail(fmt::format("'{}' is {}: {}", value.name, to_string(value.type), wrong));
      for (const Dim& d : value.type.shape)
        if (d.is_constant() && d.value() < 0)
          fail(fmt::format("'{}' has a negative size: {}", value.name, to_string(value.type)));
      if (!value.constant) continue;
      defined_[v] = true;
      const Tensor& tensor = *value.constant;
      if (is_container(tensor.dtype())) fail(fmt::format("'{}' is a container and a constant", value.name));
      if (!tensor.defined()) fail(fmt::format("constant '{}' holds no tensor", value.name));
      const TensorType type{tensor.dtype(), Shape(tensor.dims().begin(), tensor.dims().end())};
      if (type != value.type)
        fail(fmt::format("constant '{}' is {}, recorded as {}", value.name, to_string(type), to_string(value.type)));
      if (value.content && value.content != constant_content(tensor))
        fail(fmt::format("the recorded elements of constant '{}' are not its elements", value.name));
    }
  }

  void check_id(ValueId id, const std::string& where) const {
    if (id < 0 || static_cast<size_t>(id) >= graph_.values.size())
      fail(fmt::format("{} refers to value {} of {}", where, id, graph_.values.size()));
  }

  void define(ValueId id, const std::string& where) {
    check_id(id, where);
    if (defined_[static_cast<size_t>(id)])
      fail(fmt::format("{} defines '{}' a second time", where, graph_.value(id).name));
    defined_[static_cast<size_t>(id)] = true;
  }

  void check_node(const Node& node) {
    const std::string where = fmt::format("node '{}'{}", to_string(node.op),
                                          node.sources.empty() ? "" : " from '" + node.sources.front() + "'");
    for (const ValueId id : node.inputs) {
      if (id == no_value) continue;
      check_id(id, where);
      if (!defined_[static_cast<size_t>(id)])
        fail(fmt::format("{} reads '{}' before it is computed", where, graph_.value(id).name));
    }
    if (node.outputs.empty()) fail(where + " has no outputs");
    for (const ValueId id : node.outputs) define(id, where);
    for (size_t i = 0; i < node.bodies.size(); ++i)
      Verifier(node.bodies[i], fmt::format("{}, in body {} of {}", after_, i, where), true).run();
    std::vector<Inferred> inferred;
    try {
      inferred = infer(graph_, node);
    } catch (const Error& e) {
      fail(e.what());
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& value = graph_.value(node.outputs[i]);
      if (inferred[i].type != value.type)
        fail(fmt::format("{} gives '{}' as {}, recorded as {}", where, value.name, to_string(inferred[i].type),
                         to_string(value.type)));
      if (value.content && inferred[i].content && value.content != inferred[i].content)
        fail(fmt::format("{} gives other elements of '{}' than those recorded", where, value.name));
    }
  }

  void check_outputs() const {
    if (graph_.outputs.size() != graph_.output_names.size()) fail("outputs and their names differ in number");
    std::unordered_set<std::string> names;
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      check_id(graph_.outputs[i], "an output");
      if (!defined_[static_cast<size_t>(graph_.outputs[i])])
        fail(fmt::format("output '{}' is never computed", graph_.value(graph_.outputs[i]).name));
      // Outputs of bodies go by their position, and a loop may well carry one value twice.
      if (!is_body_ && !names.insert(graph_.output_names[i]).second)
        fail(fmt::format("two outputs are named '{}'", graph_.output_names[i]));
    }
  }

  const Graph& graph_;
  std::string after_;
  bool is_body_;
  std::vector<bool> defined_;  // by value
};

}  // namespace

void verify(const Graph& graph, const std::string& after) {
  Verifier(graph, after, false).run();
}

}  // namespace camshaft
