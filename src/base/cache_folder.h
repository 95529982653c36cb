// Folders of files that can be made again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace camshaft {

/// $XDG_CACHE_HOME/camshaft, or that below ~/.cache; empty where neither is known.
std::string user_cache_folder();

/// Notes that a file of a cache is used now, as its time of access. A failure means nothing.
void note_use(const std::filesystem::path& file);

/// Removes files whose names begin and end so, those first that were used the longest ago, until the others of them
/// take no more than `most_bytes`; the one that was used last stays. What cannot be read or removed is left: other
/// processes may do the same at once, and a file that they have mapped lives on.
void trim_cache(const std::filesystem::path& folder, const std::string& prefix, const std::string& suffix,
                uint64_t most_bytes);

/// What caches of engines may take on disk by default.
constexpr uint64_t default_cache_bytes = uint64_t{20} << 30;

}  // namespace camshaft
