// What every fuzzing target shares: small limits, a watchdog, and one run of an engine.
#pragma once

#include <cstdint>

#include "base/cancellation.h"
#include "runtime/engine.h"

namespace camshaft::fuzz {

/// Tensors beyond a few megabytes are refused as if the machine were that small: absurd sizes are an Error, and sizes
/// that would only be slow are not waited for.
void set_limits();

/// A flag that is raised `seconds` after this call if the next call to it has not come by then.
Cancellation cancelled_after(double seconds);

/// Everything that a user does with an engine, on inputs of a few elements. Errors are fine, but internal ones abort.
void use(const Engine& engine, uint64_t seed);

/// Aborts on what no input may cause: Error(internal), and exceptions that are no Error and not about memory.
void judge(const std::exception& e);

}  // namespace camshaft::fuzz
