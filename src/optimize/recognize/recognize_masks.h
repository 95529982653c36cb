// Masks that are multiplied into numbers, as exporters without a choice of elements write them.
#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// x·m − (1 − m)·c, in any order and with any signs, becomes a choice between x and −c where m is known to hold nothing
/// but 0 and 1 (a constant, or cast from bool) and c is one finite number. So attention sees a mask. Where m is 0 an
/// infinite or NaN x is not seen any more: the product would have made NaN of it.
void recognize_masks(Graph& graph, const PassContext& context);
inline constexpr Pass recognize_masks_pass = {
    .name = "recognize_masks", .run = recognize_masks, .before = {Fact::attention, Fact::regions}};

}  // namespace camshaft
