// Which activations the kernels of contractions have.
#pragma once

#include <optional>

#include "backends/cpu/kernels/pointwise/activation.h"
#include "ir/activation.h"

namespace camshaft::cpu {

/// The kernels' form of a function, in f32; nullopt for one that they do not have.
std::optional<Activation> kernel_activation(const ActivationFunction& f);

}  // namespace camshaft::cpu
