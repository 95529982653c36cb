// Attention that writes bytes.
#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Makes what quantises the result of an attention, which nothing else reads, a part of it: a region of kind attention,
/// whose kernel writes bytes. Attentions that kernels do not take stay as they are.
void steps_behind_attention(Graph& graph, const PassContext& context);
inline constexpr Pass steps_behind_attention_pass = {
    .name = "steps_behind_attention", .run = steps_behind_attention, .needs = {Fact::regions}};

}  // namespace camshaft
