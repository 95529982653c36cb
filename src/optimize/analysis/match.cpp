#include "optimize/analysis/match.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/ops/pointwise.h"
#include "ir/replaceable.h"
#include "reference/element_io.h"

namespace camshaft {

const Node* Producers::find(ValueId id) {
  for (; seen_ < graph_.nodes.size(); ++seen_) {
    node_of_.resize(graph_.values.size(), -1);
    for (const ValueId out : graph_.nodes[seen_].outputs)
      node_of_[static_cast<size_t>(out)] = static_cast<int32_t>(seen_);
  }
  if (id == no_value || static_cast<size_t>(id) >= node_of_.size() || node_of_[static_cast<size_t>(id)] < 0)
    return nullptr;
  return &graph_.nodes[static_cast<size_t>(node_of_[static_cast<size_t>(id)])];
}

std::vector<ValueId> Producers::inputs_of(ScalarFunction function, ValueId id) {
  const auto* op = this->op<ops::Pointwise>(id);
  return op && op->function == function ? find(id)->inputs : std::vector<ValueId>();
}

ValueId Producers::input_of_reciprocal(ValueId id) {
  if (const std::vector<ValueId> x = inputs_of(ScalarFunction::reciprocal, id); !x.empty()) return x[0];
  const std::vector<ValueId> quotient = inputs_of(ScalarFunction::div, id);
  return !quotient.empty() && uniform_constant(graph_, quotient[0]) == 1.0 ? quotient[1] : no_value;
}

bool is_readable_constant(const Graph& graph, ValueId id) {
  if (!graph.is_constant(id)) return false;
  const Tensor& t = *graph.value(id).constant;
  return t.dtype() != DType::string && !t.is_elided();
}

std::optional<double> uniform_constant(const Graph& graph, ValueId id) {
  if (!is_readable_constant(graph, id)) return std::nullopt;
  const Tensor& t = *graph.value(id).constant;
  if (t.size() == 0 || bit_width(t.dtype()) < 8) return std::nullopt;
  // That weights happen to be all equal is worth nothing where they are replaced; single numbers are what patterns
  // are recognised by, and integers are masks and zero points.
  const Provenance::Pointer& provenance = graph.value(id).provenance;
  const bool is_hidden =
      t.size() > 1 && (is_floating(t.dtype()) ? may_be_replaced(provenance) : may_be_replaced_as_integers(provenance));
  if (!is_hidden) fix_numbers(provenance, "a number that patterns are recognised by");
  // All elements are equal when the bytes are the same one element further on.
  const size_t width = byte_size(t.dtype(), 1);
  if (std::memcmp(t.data(), t.data() + width, t.bytes() - width) != 0) return std::nullopt;
  double value = 0;
  ops::load_elements(t.dtype(), t.data(), 0, 1, 1, &value);
  if (is_hidden) {
    note_replaceable(provenance, "all its elements are equal, which is not made use of");
    return std::nullopt;
  }
  if (!is_floating(t.dtype()) && std::abs(value) > 0x1p53) return std::nullopt;
  return value;
}

bool is_one_element(const Graph& graph, ValueId id) {
  return is_readable_constant(graph, id) && graph.value(id).constant->size() == 1;
}

bool has_symbolic_field(const Op& op) {
  for (const auto& [name, field] : op.fields()) {
    if (const auto* d = std::get_if<Dim>(&field); d && !d->is_constant()) return true;
    if (const auto* shape = std::get_if<Shape>(&field); shape && !is_static(*shape)) return true;
  }
  return false;
}

bool is_static(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_constant(); });
}

ValueId add_scalar(Graph& graph, DType dtype, double value) {
  return graph.add_constant("c", Tensor::scalar(dtype, value));
}

ValueId add_scalar_read_off(Graph& graph, DType dtype, double value, const std::string& what,
                            const std::vector<Constant>& from) {
  return graph.add_constant(
      "c", {std::make_shared<const Tensor>(Tensor::scalar(dtype, value)), Provenance::unknown(what, from)});
}

std::vector<std::string> merged_sources(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::string> all = a;
  for (const std::string& s : b)
    if (std::find(all.begin(), all.end(), s) == all.end()) all.push_back(s);
  return all;
}

}  // namespace camshaft
