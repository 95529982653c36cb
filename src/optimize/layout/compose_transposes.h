#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Transposes with nothing but reshapes between them become one, of as few axes as do: an image that is cut into
/// patches and comes channels last (MobileViT) moves rows of channels once instead of single elements three times.
void compose_transposes(Graph& graph, const PassContext& context);
inline constexpr Pass compose_transposes_pass = {.name = "compose_transposes",
                                                 .run = compose_transposes,
                                                 .needs = {Fact::attention, Fact::joined},
                                                 .before = {Fact::regions}};

}  // namespace camshaft
