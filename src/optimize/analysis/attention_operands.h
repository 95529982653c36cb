// Where attention's operands lie: the axes that it goes over, and how each tensor is read along them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "ir/ops/attention.h"
#include "ir/ops/move.h"
#include "optimize/analysis/access_space.h"

namespace camshaft {

/// Follows a match from its first product to its second, and then the moves around both. `scores` is always the value
/// that has been come to.
class AttentionOperands {
 public:
  AttentionOperands(const Graph& graph, const Uses& uses) : graph_(graph), uses_(uses) {}

  /// The first product. Which of its operands are keys, choose_keys() tells.
  void begin(const Node& product);
  /// The functions that return bool give up where something cannot be told or does not fit.
  bool transpose_scores(const ops::Transpose& op, ValueId before, ValueId after);
  /// One more mask, which broadcasts to the scores.
  bool add_mask(ValueId scores, ValueId mask);
  /// The softmax goes over the keys, and over nothing else.
  bool choose_keys(ValueId scores, size_t axis);
  /// The second product, whose result is `result` then.
  bool multiply_values(const Node& product, ValueId scores);
  /// Reads and writes as far away as only moves are between; not the first operand of the first product, if that is to
  /// be kept. The sources of what is passed are added.
  void go_through_moves(bool keeps_first, std::vector<std::string>& sources);
  /// Fills the fields of sizes and accesses; else the reason why not.
  std::optional<std::string> fill(ops::Attention& op);

  ValueId result() const { return result_value_; }
  bool first_is_query() const { return first_ == query_; }
  /// Query, key and value.
  std::vector<ValueId> inputs() const;

 private:
  enum Role : int { outer_axis, query_axis, key_axis, depth_axis, value_axis };

  const Node& node(int32_t n) const { return graph_.nodes[static_cast<size_t>(n)]; }
  const Shape& shape(ValueId id) const { return graph_.shape(id); }
  int32_t producer(ValueId id) const { return id == no_value ? -1 : uses_.producer[static_cast<size_t>(id)]; }
  int32_t only_reader(ValueId id) const { return uses_.single(id) ? uses_.readers[static_cast<size_t>(id)][0] : -1; }
  const Dim& stride(size_t access, size_t axis) const { return space_.access(access).strides[axis]; }
  bool is_alone(ValueId scores, size_t at, Role role);
  size_t count(Role role) const;
  bool remap(size_t access, const Shape& from, const std::vector<AccessSpace::Target>& targets);
  void read_through_moves(size_t access, std::vector<std::string>& sources);
  void write_through_moves(std::vector<std::string>& sources);

  const Graph& graph_;
  const Uses& uses_;
  AccessSpace space_;
  ValueId result_value_ = no_value;
  size_t scores_ = 0, query_ = 0, key_ = 0, value_ = 0, result_ = 0;  // accesses
  size_t first_ = 0;                                                  // of the first operand of the first product
  std::vector<size_t> masks_;
  std::vector<std::pair<size_t, ValueId>> sources_;  // accesses and what they read
};

}  // namespace camshaft
