#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Of a decoder's layer, the rotary embeddings of queries and keys and the stores of keys and values become one
/// operator (ops::PagedUpdate): one kernel where there were four, each of some 2 µs for a token, and one that reads all
/// three where they lie beside each other, so that their products can be joined. Only where both embeddings have the
/// same tables, a row of angles for each token, and both caches one floating-point type.
void update_caches(Graph& graph, const PassContext& context);
inline constexpr Pass update_caches_pass = {
    .name = "update_caches", .run = update_caches, .before = {Fact::joined, Fact::regions}};

}  // namespace camshaft
