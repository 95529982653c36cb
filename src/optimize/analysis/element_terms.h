// What elements of a value are sums of products of, for passes that recognise computations by their meaning.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "optimize/analysis/access_space.h"

namespace camshaft {

/// Follows elements, which an access to a value picks, through moves, concatenations and changes of sign back to where
/// they come from. Accesses change on the way, and axes of the space may be split.
class ElementTerms {
 public:
  /// A value, and how it is read along the axes.
  struct Operand {
    ValueId value = no_value;
    size_t access = 0;
  };
  /// An operand, or the product of two.
  struct Term {
    bool negative = false;
    std::vector<Operand> factors;
  };
  /// Whether an access may be what it has become behind a move; else the move stays.
  using Allows = bool (*)(const AccessSpace& space, size_t access);

  /// The sources of the nodes that are followed are added to `sources`.
  ElementTerms(const Graph& graph, const Uses& uses, AccessSpace& space, Allows allows,
               std::vector<std::string>& sources)
      : graph_(graph), uses_(uses), space_(space), allows_(allows), sources_(sources) {}

  /// The terms whose sum the access reads of the value; none when they are more than two.
  std::vector<Term> of(ValueId id, size_t access);
  /// What of the value the access reads, before moves.
  Operand before_moves(ValueId id, size_t access);

 private:
  const Node* producer(ValueId id) const;
  void take(const Node& node);
  bool remap(size_t access, const Shape& from, const std::vector<AccessSpace::Target>& targets);
  const Node* step_back(ValueId id, size_t access, ValueId& to);
  bool choose_part(const Node& concat, size_t axis, size_t access, ValueId& to);
  Operand factor(ValueId id, size_t access, bool& negative);
  bool follow(ValueId id, size_t access, bool negative, int depth, std::vector<Term>& terms);

  const Graph& graph_;
  const Uses& uses_;
  AccessSpace& space_;
  const Allows allows_;
  std::vector<std::string>& sources_;
};

}  // namespace camshaft
