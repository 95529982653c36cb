#pragma once

#include "optimize/pass_list.h"

namespace camshaft {

/// What brings any model into one form, whatever its exporter wrote: constants folded, needless moves and arithmetic
/// gone, norms, softmax, masks and activations as operators, factors and shifts in the weights. Each of these passes
/// may make work for the others, so they run until nothing changes.
PassStep canonicalization();

}  // namespace camshaft
