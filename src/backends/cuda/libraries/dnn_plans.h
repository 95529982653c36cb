// Plans of cuDNN's that the process keeps.
#pragma once

#include <functional>
#include <string>

#include "backends/cuda/libraries/dnn.h"

namespace camshaft::cuda {

/// The plan that is known as `key`, which says what it computes and on which device, or what `make` returns, which then
/// is: layers of a model resemble each other, and each context of an engine prepares them anew. Of many plans the
/// oldest are forgotten.
std::shared_ptr<const DnnPlan> kept_plan(const std::string& key,
                                         const std::function<std::shared_ptr<const DnnPlan>()>& make);

}  // namespace camshaft::cuda
