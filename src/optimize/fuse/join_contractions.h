// Horizontal fusion: parallel products and convolutions of one value.
#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Contractions of one value become one whose weights are all of theirs side by side: matrix products with constant
/// matrices stored alike (query, key and value), channels-last convolutions of one group with kernels, strides, pads
/// and dilations alike (both branches of YOLO's C3), products of bytes by matrices without zero points, and those of
/// weights of few bits. What reads them
/// gets slices of the common result, attention its columns by its strides. One launch instead of several, and the value
/// is read once: 1.82 ms instead of 1.86 for BERT's three products at 1 x 128, more where products are small.
///
/// Pointwise operators behind them with single numbers or numbers a column are applied once, before the slices are
/// taken, where they are the same behind each; biases may be missing. Contractions stay apart where joining would cost
/// more memory traffic than it saves, and notes say so: an operator that would have been part of one kernel's epilogue
/// (a residual), or a reader to which a slice must be copied.
void join_contractions(Graph& graph, const PassContext& context);
inline constexpr Pass join_contractions_pass = {.name = "join_contractions",
                                                .run = join_contractions,
                                                .needs = {Fact::layouts, Fact::attention},
                                                .before = {Fact::regions},
                                                .settles = {Fact::joined}};

}  // namespace camshaft
