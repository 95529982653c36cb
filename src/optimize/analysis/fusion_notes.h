// Why fuse() left neighbours apart, in words.
#pragma once

#include <vector>

#include "ir/ops/region.h"
#include "optimize/pass.h"

namespace camshaft {

/// An epilogue is compiled as one expression over operands kept in registers and cache.
constexpr size_t max_epilogue_nodes = 64;
constexpr size_t max_group_nodes = 64;
/// Inputs and results of a pointwise group together; what a backend's kernel for them must take.
constexpr size_t max_group_operands = 64;
/// Inputs that the steps before a reduction may read, and those behind it; axes of what is reduced, that those before
/// may broadcast in any way. A GPU's kernel is given the strides of all of them as a parameter, of 4 KB at most.
constexpr size_t max_reduced_operands = 16, max_reduced_axes = 6;

/// What becomes one node of the fused graph.
struct FusionUnit {
  std::vector<int32_t> nodes;  ///< in node order
  ops::RegionKind kind = ops::RegionKind::opaque;
  bool full = false;  ///< more of its group had no room, and is in other units
};

/// Whether the epilogue of a contraction or reduction, whose own result is `result`, may take or make a `dtype`.
bool may_stand_behind(const Node& anchor, DType result, DType dtype);
/// Whether it is a reduction that may have steps before and behind it: along some of not too many axes, of numbers of
/// whole bytes.
bool takes_steps(const Graph& graph, const Node& node);
/// Whether the types of an elementwise operator let it be one of the steps before it.
bool may_be_step(const Graph& graph, const Node& node);
/// Operators that may stand behind a contraction, or in a group of their own.
bool is_elementwise(const Node& node);

/// Adds a note for each result of a contraction, a reduction or an elementwise operator that an elementwise operator of
/// another unit reads, and for those of elementwise operators that a reduction of another unit does. `unit_of` is of
/// each node.
void note_partings(const Graph& graph, const Uses& uses, const std::vector<FusionUnit>& units,
                   const std::vector<int32_t>& unit_of, PassNotes& notes);

}  // namespace camshaft
