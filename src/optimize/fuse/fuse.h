#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Partitions the graph into regions (ops/region.h), each of which a backend may run as one kernel:
///
/// - contract: a convolution, transposed convolution or matrix product and the pointwise operators behind it, as far as
///   each intermediate is used only inside and has the shape of the contraction's result. The body starts with the
///   contraction; its other operands (bias, residual) come from outside. Where several contractions meet in one
///   operator, the last in node order takes it: the others' results are ready by then.
/// - reduce: a reduction, the pointwise operators before it that compute what it reads and have its shape, as far as
///   nobody else reads them, and those behind it, as behind a contraction. Contractions are asked first: what stands
///   behind one stays there, and the reduction reads the result.
/// - pointwise: connected pointwise operators of one shape, at most 64, with at most 64 inputs and results
///   together.
///
/// A node alone, and every other operator, stays a plain node. Bodies are closed; their inputs are named after the
/// outer values. One-element constants are copied into the body, larger ones are inputs. Whether a fusion pays is not
/// asked here: these always save a round trip through memory.
void fuse(Graph& graph, const PassContext& context);
inline constexpr Pass fuse_pass = {.name = "fuse", .run = fuse, .before = {Fact::regions}, .settles = {Fact::regions}};

}  // namespace camshaft
