#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Stores what passes from one region to the next in PassContext::storage (f16 or bf16) instead of f32, where both are
/// of those that compute as well on it: contractions, whose sums stay f32, attention, normalisations, reductions,
/// pooling, resizing and what moves elements. Pointwise expressions are computed in f32 as before, between reading and
/// storing; what a reduction computes with such steps stays f32. Everything else, the graph's inputs and outputs among
/// it, stays f32, with casts between; so do nodes with a constant that the type cannot hold, and those that write a
/// value of PassContext::keep_f32, or that PassContext::rules ask another precision of.
///
/// Changes results by the type's rounding.
void lower_precision(Graph& graph, const PassContext& context);
inline constexpr Pass lower_precision_pass = {.name = "lower_precision",
                                              .run = lower_precision,
                                              .needs = {Fact::regions},
                                              .before = {Fact::chains},
                                              .settles = {Fact::storage}};

}  // namespace camshaft
