// What reads columns of wider rows without a copy: operators with strides of their own, and those whose kernels take
// slices (Kernel::reads_slices).
#pragma once

#include <optional>

#include "ir/graph.h"

namespace camshaft {

/// Columns [first, first + width) of rows of `joined_width`.
struct Columns {
  int64_t width = 0, first = 0, joined_width = 0;
};

/// Whether the operator reads the value through strides that are among its fields.
bool reads_through_strides(const Node& node, ValueId id);
/// The same operator reading those columns of `joined` in place of `id`, whose rows are `width` long; nullopt where it
/// does not stay within a row.
std::optional<Node> reading_columns(const Node& node, ValueId id, ValueId joined, const Columns& columns);

/// Whether what reads the value may find it as a slice of wider rows. Of concatenations along the last axis see below.
bool reads_slices(const Graph& graph, const Uses& uses, const Node& node, ValueId id);
/// The column of a concatenation's result at which the value lies, if one reads it.
std::optional<int64_t> column_in_concat(const Graph& graph, const Uses& uses, ValueId id);
/// Whether the results of all concatenations that read the value may lie where the wider rows do, once what they have
/// besides is no longer needed there (compile/plan/place_slices.h).
bool fits_concats(const Graph& graph, const Uses& uses, ValueId id, const Columns& columns);

}  // namespace camshaft
