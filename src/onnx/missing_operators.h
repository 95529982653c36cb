// Finds every operator of a model that cannot be converted, before any is.
#pragma once

#include "onnx/proto.h"

namespace camshaft::onnx {

/// How many functions may call each other: following the calls recurses.
constexpr size_t deepest_calls = 100;

/// How many nodes the calls of functions may make, all in all; the largest exported models have some ten thousand.
constexpr size_t largest_inlined = size_t{1} << 20;
[[noreturn]] void refuse_inlined();  ///< Error(invalid_model) where they make more

/// Looks through the graph, its sub-graphs and the functions that it calls. Throws one Error(unsupported) that names
/// every operator missing here and the nodes that use it, or Error(unsupported) for an operator set that is too old or
/// too new, or refuse_inlined().
void check_operators(const ModelProto& model);

/// The version of the operator set of `domain`: the first import that has it. 1 for a domain that is not imported,
/// except the default one: Error(invalid_model).
int64_t opset_version(const std::string& domain, const OpsetImports& imports, const ModelProto& model);

}  // namespace camshaft::onnx
