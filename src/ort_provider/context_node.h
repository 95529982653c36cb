// Nodes that hold an engine in place of the nodes that it was made of: EPContext of com.microsoft.
#pragma once

#include <string>
#include <vector>

#include "ort_provider/host.h"
#include "ort_provider/options.h"
#include "runtime/engine.h"

namespace camshaft::ort_provider {

/// Whether a node is one of this provider's.
bool is_context_node(const Host& host, const OrtNode* node);

/// Writes the engine into a node of this name, or beside the model that is made into a file which the node names.
/// `model_path`: of the session's model, "" in memory. The caller frees it. Throws Error(io) and Error(unsupported).
OrtNode* make_context_node(const Host& host, const Engine& engine, const ProviderOptions& options,
                           const std::string& name, const std::string& model_path);

/// Reads it again; one of another machine runs here, too. `device`: what it is to run on; one for a GPU takes the first
/// where that is "cpu". `folder`: of the model. Throws Error: corrupt_engine for what is damaged or of another format
/// version, invalid_model for a file outside of the folder, io, and what Engine::load() throws.
Engine load_context_node(const Host& host, const OrtNode* node, const std::string& device, const std::string& folder);

/// What says which machines and versions run an engine that this library makes.
std::string compatibility_text();

}  // namespace camshaft::ort_provider
