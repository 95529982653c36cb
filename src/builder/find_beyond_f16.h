// Values of a model that f16 cannot hold.
#pragma once

#include <set>
#include <string>

#include "builder/verification_sample.h"

namespace camshaft {

/// Names of the values of `optimized` that exceed half of f16's range on sample inputs of `model`, which it was made
/// of. None when the reference evaluation accepts no inputs that can be made up.
std::set<std::string> find_beyond_f16(const Graph& model, const Graph& optimized, const SampleOptions& options,
                                      ThreadPool& pool);

}  // namespace camshaft
