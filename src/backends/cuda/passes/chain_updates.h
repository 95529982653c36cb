// Updates of caches that attention over these does on its way.
#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Puts an update of caches (ops::PagedUpdate) and the attention that reads all of its results, the query alone, into a
/// chain, whose results are the attention's and the caches. (Of few tokens a kernel of its own takes 1.7 us of an H200
/// a layer, and the attention waits for it before it reads keys.)
void chain_updates(Graph& graph, const PassContext& context);

inline constexpr Pass chain_updates_pass = {
    .name = "chain_updates", .run = chain_updates, .needs = {Fact::layouts, Fact::regions}, .before = {Fact::chains}};

}  // namespace camshaft
