// Low-rank updates of a model's products, several of them in one engine, of which a run chooses one.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "builder/builder.h"
#include "ir/graph.h"
#include "ir/replaceable.h"
#include "onnx/lora_adapter.h"

namespace camshaft {

/// Reads the files that BuildOptions::lora names. Throws what read_lora_adapter() throws.
std::vector<onnx::LoraAdapter> read_adapters(const BuildOptions& options);

/// What tells a model with these adapters from others. `by_shape`: whatever their numbers are.
std::string adapters_hash(const std::vector<onnx::LoraAdapter>& adapters, bool by_shape);

/// The names of initializers that add_lora() may give the adapters' tensors.
std::set<std::string> adapter_initializers(const std::vector<onnx::LoraAdapter>& adapters);

/// Gives an imported graph the input runtime/adapters.h names, and each product x·W that an adapter updates the sum
/// x·W + (x·A)·B, where A [in, rank] and B [rank, out] are gathered by that input from all adapters' matrices, after
/// one of zeros. Smaller ranks are padded with zeros. The matrices are made of constants that have the provenance of
/// initializers, "<adapter>/<module>.lora_A.weight" [rank, in] and "….lora_B.weight" [out, rank] in f32: each adapter
/// has all that any has, so that a refit may bring another adapter. Returns what each updates, for the report. Throws
/// what LoraProducts::match() throws, and Error(invalid_argument) where the model has such an input already.
std::vector<std::string> add_lora(Graph& graph, const std::vector<onnx::LoraAdapter>& adapters, ThreadPool& pool);

}  // namespace camshaft
