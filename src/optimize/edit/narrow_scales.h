#pragma once

#include <functional>

#include "ir/graph.h"

namespace camshaft {

/// Makes f16 of the f32 scales of weights of few bits that products of `dtype` read, within regions too: those of which
/// `fits` says so.
void narrow_scales(Graph& graph, DType dtype, const std::function<bool(const Value& scale)>& fits);

}  // namespace camshaft
