// The engine file: everything an engine is, on disk.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "compile/constants/packed_constants.h"
#include "compile/explanation.h"
#include "compile/tactic.h"
#include "engine/keep.h"
#include "engine/profile.h"
#include "ir/graph.h"
#include "ir/replaceable.h"

namespace camshaft {

/// What is stored. The plan is not: it is laid out again from the graph and the recorded tactics when the file is
/// loaded (a few milliseconds), so nothing in a file is ever trusted as an address or a size.
struct EngineFile {
  std::string device_kind;            ///< "cpu", …
  Graph graph;                        ///< optimised, with regions
  std::vector<TacticChoice> tactics;  ///< of each node
  std::shared_ptr<PackedConstants> packed;
  std::vector<Profile> profiles;
  SymbolBindings optimum;
  std::map<std::string, std::string> metadata;
  std::vector<LayerExplanation> explanations;  ///< of each node, or none
  /// Of each value; none: the bytes of all that have some. Of a file that was read there are none.
  std::vector<Keep> keep;
  /// The initializers that bodies of branches and loops are without. Of a file that was read there are none.
  std::set<std::string> left_out = {};
  /// Of an engine that can be refitted: the initializers of its model.
  std::optional<std::vector<InitializerRecord>> initializers = {};
  /// Whether there are constants of which a refit must bring the bytes. Filled by read_engine_file.
  bool is_stripped = false;
  std::shared_ptr<const void> storage;  ///< keeps the mapped weights alive; filled by read_engine_file
};

/// Writes atomically. Throws Error(io).
void write_engine_file(const std::string& path, const EngineFile& engine);
/// The same bytes in memory.
std::vector<std::byte> engine_file_bytes(const EngineFile& engine);

/// Checks a mapped file, or bytes in memory: bounds, checksums, structure (FlatBuffers verifier), semantics (graph
/// verifier, shape rules). Any bytes at all give an engine or an Error(corrupt_engine), or MissingPlugin where they
/// name an operator of a plugin that is not loaded.
/// `releases`: the file's pages go from memory again as they were checked.
EngineFile read_engine_file(const std::shared_ptr<const MappedFile>& mapped, bool releases = false);
/// Maps the file first; Error(io) when it cannot be read.
EngineFile read_engine_file(const std::string& path);

}  // namespace camshaft
