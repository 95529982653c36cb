// Scatters into a box.
#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// A scatter whose indices make up a box of the tensor, as exporters write `x[:, 1:] = y` and `x[:, 1:] += y`, becomes
/// the concatenation of what lies around the box and of the updates, where that takes less time than the indices do.
/// One that overwrites all of the tensor is its updates. Where scores of a softmax are added to, what is added is
/// padded with zeros and added as a whole: a product with a mask behind it, of which attention can be made. Sums of
/// such masks come before the scores then.
void write_boxes(Graph& graph, const PassContext& context);
inline constexpr Pass write_boxes_pass = {.name = "write_boxes", .run = write_boxes, .before = {Fact::regions}};

}  // namespace camshaft
