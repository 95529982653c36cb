// Activations that exporters spell out in exponentials.
#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// 1 / (1 + exp(-x)) becomes a sigmoid, y / (1 + exp(-x)) a product with one. tanh(log(1 + exp(x))), of which Mish is
/// made, becomes the quotient of polynomials in exp(x) that it is: a third of the time on a CPU. For f32 and f64.
void recognize_activations(Graph& graph, const PassContext& context);
inline constexpr Pass recognize_activations_pass = {
    .name = "recognize_activations", .run = recognize_activations, .before = {Fact::regions}};

}  // namespace camshaft
