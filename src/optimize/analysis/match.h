// What passes use to recognise patterns.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "ir/ops/scalar_function.h"

namespace camshaft {

/// Who computes a value, in a graph whose node list is growing: passes that rewrite front to back look at what they
/// have already appended.
class Producers {
 public:
  explicit Producers(const Graph& graph) : graph_(graph) {}
  /// Null for inputs and constants. Invalid once another node is appended: copy what you need.
  const Node* find(ValueId id);
  /// The operator that computes a value, if it is a T with one output.
  template <Operator T>
  const T* op(ValueId id) {
    const Node* node = find(id);
    return node && node->outputs.size() == 1 ? node->op.as<T>() : nullptr;
  }
  /// The inputs of the pointwise operator that computes a value, if it applies `function`; empty if not.
  std::vector<ValueId> inputs_of(ScalarFunction function, ValueId id);
  /// x, if the value is computed as 1 / x, by a reciprocal or a division; no_value if not.
  ValueId input_of_reciprocal(ValueId id);

 private:
  const Graph& graph_;
  size_t seen_ = 0;
  std::vector<int32_t> node_of_;
};

/// The bytes of a constant are here and are numbers.
bool is_readable_constant(const Graph& graph, ValueId id);
/// The value that all elements of a numeric constant have, if they all have one. Not for integers beyond 2^53.
std::optional<double> uniform_constant(const Graph& graph, ValueId id);
/// The constant has one element, whatever its rank.
bool is_one_element(const Graph& graph, ValueId id);
/// Some field of the operator is an expression of symbols.
bool has_symbolic_field(const Op& op);
/// All dims are numbers.
bool is_static(const Shape& shape);

/// Appends a one-element constant of the given type's dtype and of rank 0.
ValueId add_scalar(Graph& graph, DType dtype, double value);
/// One that a pass has read off constants in a way that no operator expresses: it cannot be redone for other ones.
/// `what` names it for people, `from` are those of the constants that are at hand.
ValueId add_scalar_read_off(Graph& graph, DType dtype, double value, const std::string& what,
                            const std::vector<Constant>& from = {});

/// `a` without duplicates, then what `b` has besides.
std::vector<std::string> merged_sources(const std::vector<std::string>& a, const std::vector<std::string>& b);

}  // namespace camshaft
