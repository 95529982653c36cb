// Pointwise layers that products of few rows compute where they read them.
#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Puts a pointwise layer, and the product with constant weights that alone reads what it gives, into a chain: SwiGLU
/// before the last product of a decoder's layer. Where rows are known to be many they stay apart. (A kernel of its own
/// takes 3.5 us of an H200 for a token's 16 KB.)
void chain_prologues(Graph& graph, const PassContext& context);

inline constexpr Pass chain_prologues_pass = {.name = "chain_prologues",
                                              .run = chain_prologues,
                                              .needs = {Fact::layouts, Fact::regions},
                                              .before = {Fact::chains}};

}  // namespace camshaft
