// The evaluation of provenances: constants made anew of a model's initializers.
#pragma once

#include <functional>
#include <string>

#include "base/thread_pool.h"
#include "ir/provenance.h"
#include "ir/tensor.h"

namespace camshaft {

/// The tensor of an initializer, by its name in provenances; undefined when there is none.
using FindInitializer = std::function<Tensor(const std::string& name)>;

/// Computes what an expression says, bit for bit as it was computed when it was recorded. Throws Error(unsupported),
/// with the reason, for what cannot be redone; Error(invalid_argument), naming it, for an initializer that is missing
/// or of another type or shape, and for initializers that were equal and are not any more; and what the operators
/// throw.
Tensor replay(const Provenance& provenance, const FindInitializer& find, ThreadPool& pool);

}  // namespace camshaft
