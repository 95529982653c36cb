// Softmax and its logarithm, as exporters without an operator for it spell them out.
#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// With d = x - max(x) along one axis and e = exp(d): e / sum(e), the same times a reciprocal, d - log(sum(e)) and
/// x - (max(x) + log(sum(e))) become ops::Softmax of x. Before a softmax, the subtraction of the same maximum is
/// dropped.
///
/// Without the maximum e / sum(e) is something else (exp(89) is infinite, and the quotient NaN), and so is the
/// logarithm of a softmax (-inf of what vanished): both stay.
void recognize_softmax(Graph& graph, const PassContext& context);
inline constexpr Pass recognize_softmax_pass = {
    .name = "recognize_softmax", .run = recognize_softmax, .before = {Fact::attention, Fact::regions}};

}  // namespace camshaft
