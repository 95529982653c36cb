// Graphs in the FlatBuffers form of an engine file.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine_format_generated.h"
#include "ir/graph.h"

namespace camshaft {

/// Puts a constant's bytes into the weights section and returns their offset.
using StoreBytes = std::function<uint64_t(const Tensor&)>;
/// `tactics` and `elide` are of the outermost graph's nodes and values; bodies have none.
flatbuffers::Offset<format::Graph> encode_graph(flatbuffers::FlatBufferBuilder& builder, const Graph& graph,
                                                const std::vector<std::string>* tactics, const std::vector<bool>* elide,
                                                const StoreBytes& store);

/// How many bytes a decoder may still copy. What a writer stores lies in the section once, so that all copies together
/// are no larger than it; a hostile section refers to the same bytes over and over.
class CopyBudget {
 public:
  explicit CopyBudget(size_t section_bytes) : left_(section_bytes) {}
  /// Throws Error(corrupt_engine) when nothing is left.
  void take(size_t bytes);

 private:
  size_t left_;
};

/// A stored list of numbers, empty when absent. By memcpy: the verifier of FlatBuffers checks where the list starts,
/// not that its elements are aligned.
template <class T>
std::vector<T> copy_numbers(const flatbuffers::Vector<T>* list, CopyBudget& budget) {
  if (!list || list->size() == 0) return {};
  budget.take(list->size() * sizeof(T));
  std::vector<T> out(list->size());
  std::memcpy(out.data(), list->Data(), list->size() * sizeof(T));
  return out;
}

/// Where constants' bytes come from: the weights section and what keeps it alive.
struct WeightBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};
/// Checks every index, name and size, and runs every shape rule again: a graph that comes out is valid. Throws Error.
Graph decode_graph(const format::Graph& graph, const WeightBytes& weights, CopyBudget& budget,
                   std::vector<std::string>* tactics);

}  // namespace camshaft
