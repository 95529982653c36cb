// Nodes that make bytes of a tensor.
#pragma once

#include <map>

#include "ir/region_editor.h"

namespace camshaft {

/// A cast, or a pointwise region of one operand and numbers, whose result is bytes, or 8-bit floats
/// that saturate, of the operand's shape.
bool quantises(const Graph& graph, const Node& node);
/// The same with up to one further operand: a constant of f32 with a number for each column, as channels that are
/// evened out have.
bool quantises_columns(const Graph& graph, const Node& node);

/// Appends what such a node does to a region that computes its first operand as `inner`. Returns the bytes.
ValueId append_steps(RegionEditor& region, const Graph& graph, const Node& node, ValueId inner);

}  // namespace camshaft
