// The matrices of adapters that an engine has, each in a stack with those of the others (builder/add_lora.h).
#pragma once

#include <map>
#include <string>

#include "ir/provenance.h"
#include "ir/tensor.h"

namespace camshaft {

/// Of a constant that is such a stack, by its provenance, the matrices in f32, by the names of the initializers that
/// they are. Empty for other constants: what passes have made something else of does not come back.
std::map<std::string, Tensor> matrices_of_stack(const Tensor& stack, const Provenance& provenance);

}  // namespace camshaft
