#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Makes one operator of rotary position embeddings: of halves, of neighbours, and of the first part of each row only;
/// spelled as x·cos + rotate_half(x)·sin, or as a concatenation or a stack of real and imaginary parts. It reads x and
/// the tables through the moves around them.
void recognize_rotary_embedding(Graph& graph, const PassContext& context);
inline constexpr Pass recognize_rotary_embedding_pass = {.name = "recognize_rotary_embedding",
                                                         .run = recognize_rotary_embedding,
                                                         .before = {Fact::attention, Fact::regions}};

}  // namespace camshaft
