// Attention, by meaning: two products with a softmax between them become one operator.
#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// product → scale, masks → softmax → product, whatever reshapes and transposes lie between, before and behind, becomes
/// ops::Attention, which reads query, key and value where they are (in the rows of a common projection, repeated for
/// groups of heads, windows of an image) and writes its result in the order that its reader wants. The scores must not
/// be used otherwise. For f32.
void recognize_attention(Graph& graph, const PassContext& context);
inline constexpr Pass recognize_attention_pass = {.name = "recognize_attention",
                                                  .run = recognize_attention,
                                                  .before = {Fact::joined, Fact::regions},
                                                  .settles = {Fact::attention}};

}  // namespace camshaft
