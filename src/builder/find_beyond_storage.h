// Values of a model that a narrow float cannot hold.
#pragma once

#include <set>
#include <string>

#include "builder/verification_sample.h"

namespace camshaft {

/// Names of the values of `optimized` that exceed half of what `storage`, f16 or bf16, can hold on sample inputs of
/// `model`, which it was made of: masks add the least number of f32, which bf16 rounds to infinity. None when the
/// reference evaluation accepts no inputs that can be made up.
std::set<std::string> find_beyond_storage(const Graph& model, const Graph& optimized, DType storage,
                                          const SampleOptions& options, ThreadPool& pool);

}  // namespace camshaft
