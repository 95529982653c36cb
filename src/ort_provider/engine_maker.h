// From groups of nodes to engines.
#pragma once

#include <optional>

#include "onnx/proto.h"
#include "ort_provider/host.h"
#include "ort_provider/options.h"
#include "runtime/engine.h"

namespace camshaft::ort_provider {

/// The engine of a group's model, from the cache or built; initializers that it keeps are copied. Where verification
/// cannot be done, for want of inputs that the model accepts, it is built without, and the log told. Nothing where it
/// cannot be built, of which the log is told why. Throws Error(cancelled) and Error(out_of_memory), and
/// Error(invalid_argument) for options that contradict each other.
std::optional<Engine> make_engine(onnx::ModelProto model, const ProviderOptions& options, const Log& log);

}  // namespace camshaft::ort_provider
