#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Transposes with nothing but reshapes between them become one, of as few axes as do: an image that is cut into
/// patches and comes channels last (MobileViT) moves rows of channels once instead of single elements three times.
/// Behind the passes that read through such chains (recognize_attention, join_contractions).
void compose_transposes(Graph& graph, const PassContext& context);

}  // namespace camshaft
