#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Puts a rotary embedding and the gathers of its tables' rows that it alone reads into a region of kind chain
/// (ops/region.h), with reshapes between them: the kernel reads the rows where they are (tactics/rotary_embedding.cpp).
/// Layers that share their positions share the gathered rows, too, and stay as they are.
void chain_rotary_tables(Graph& graph, const PassContext& context);
inline constexpr Pass chain_rotary_tables_pass = {
    .name = "chain_rotary_tables", .run = chain_rotary_tables, .needs = {Fact::regions}, .settles = {Fact::chains}};

}  // namespace camshaft
