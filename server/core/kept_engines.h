// The folder of engines that were built of models: what is kept in it.
#pragma once

#include <cstdint>
#include <filesystem>

namespace camshaft::server {

/// Where engines are kept, and how much of them.
struct EngineCache {
  std::filesystem::path folder;              ///< empty: beside the user's other caches
  uint64_t most_bytes = uint64_t{20} << 30;  ///< of all that are kept; 0: any number
};

/// Notes that an engine is used now, as its file's time of access. A failure means nothing.
void note_engine_use(const std::filesystem::path& engine);

/// Removes kept engines, those first that were used the longest ago, until the others take no more than `most_bytes`;
/// the one that was used last stays. Servers may share a folder: an engine that is mapped lives on without its file,
/// and what another has removed is gone.
void trim_engines(const EngineCache& cache);

}  // namespace camshaft::server
