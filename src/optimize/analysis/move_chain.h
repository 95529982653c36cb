// What a chain of moves does as a whole, followed from its result back to what it reads.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "optimize/analysis/access_space.h"

namespace camshaft {

/// An index map (ops/index_map.h) of the result's axes, each of which belongs to one axis of the shape that was asked
/// for.
struct ChainMap {
  std::vector<Dim> sizes;
  std::vector<int> roles;  ///< the axis of the shape; both parts of one that is split have its role
  std::vector<int64_t> along, steps;
  Shape starts;
  ValueId value = no_value;  ///< for what lies beyond the operand's axes; no_value: zeros
  bool wraps = false;
};

/// Reshapes, transposes, slices, and gathers of evenly spaced indices are followed through strides. Behind
/// them (towards the operand) one constant padding, or rolls, may follow, and then only what leaves the axes whole.
class MoveChain {
 public:
  MoveChain(const Graph& graph, const Uses& uses, const Shape& result);

  /// Goes on to what a node reads, whose result the chain has come to. False (and nothing changes) where its move, or
  /// where it leads together with those before, cannot be expressed.
  bool cross(const Node& node);
  /// What cross() has come to.
  ValueId operand() const { return operand_; }
  /// The whole; nullopt where indices along the operand's axes cannot be told.
  std::optional<ChainMap> map();

 private:
  using Targets = std::vector<AccessSpace::Target>;
  bool remap(const Node& node, const Targets& targets);
  bool cross_transpose(const Node& node);
  bool cross_slice(const Node& node);
  bool cross_gather(const Node& node);
  bool cross_pad(const Node& node);
  bool cross_roll(const Node& node);
  bool cross_reshape(const Node& node);
  std::optional<ChainMap> placed_in(const Shape& shape);
  bool go_through(const Node& node);

  const Graph& graph_;
  const Uses& uses_;
  AccessSpace space_;
  size_t access_ = 0;
  ValueId operand_ = no_value;
  std::optional<ChainMap> map_;  // from a padding or a roll on
};

/// A concatenation of the end of a tensor and its beginning: y[i] = x[(i + shift) mod n] along an axis.
struct Roll {
  ValueId x = no_value;
  int64_t axis = 0;
  Dim shift = 0;
};
std::optional<Roll> roll_of(const Graph& graph, const Uses& uses, const Node& node);

}  // namespace camshaft
