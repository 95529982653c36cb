// Graphs in the FlatBuffers form of an engine file.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compile/tactic.h"
#include "engine/keep.h"
#include "engine/provenance_codec.h"
#include "engine_format_generated.h"
#include "ir/graph.h"

namespace camshaft {

/// Puts a constant's bytes into the weights section and returns their offset.
using StoreBytes = std::function<uint64_t(const Tensor&)>;
/// `tactics` and `keep` are of the outermost graph's nodes and values; bodies have none. In the bodies of branches and
/// loops constants that are made of the initializers `left_out` are without their bytes.
flatbuffers::Offset<format::Graph> encode_graph(flatbuffers::FlatBufferBuilder& builder, const Graph& graph,
                                                const std::vector<TacticChoice>* tactics, const std::vector<Keep>* keep,
                                                const StoreBytes& store, ProvenanceEncoder& provenances,
                                                const std::set<std::string>& left_out);

/// Where constants' bytes come from: the weights section and what keeps it alive.
struct WeightBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};
/// Checks every index, name and size, and runs every shape rule again: a graph that comes out is valid. Throws Error.
Graph decode_graph(const format::Graph& graph, const WeightBytes& weights, const ProvenanceList& provenances,
                   CopyBudget& budget, std::vector<TacticChoice>* tactics);

}  // namespace camshaft
