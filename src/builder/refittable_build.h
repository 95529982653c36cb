// Builds whose engines can be refitted.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "builder/builder.h"
#include "compile/backend.h"
#include "ir/replaceable.h"
#include "onnx/proto.h"

namespace camshaft {

/// Whether the weights of the engine are to be replaced later.
bool refits(const BuildOptions& options);
/// Throws Error(invalid_argument) for precisions that such an engine cannot be built in. `options` with `best`
/// resolved.
void check_refit_options(const BuildOptions& options, const Backend& backend);
/// What identifies the model of such an engine, which is the same whatever its weights are: the model as a file has it,
/// with the types of its initializers alone.
std::string bytes_without_weights(const onnx::ModelProto& model);
/// The initializers of the main graph, but for sparse ones, and `names` beside them.
std::unique_ptr<Replaceable> replaceable_of(const onnx::ModelProto& model, std::set<std::string> names = {});
/// Fills what a report says of the initializers.
void report_refit(const Replaceable& replaceable, BuildReport& report);

}  // namespace camshaft
