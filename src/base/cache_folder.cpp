#include "base/cache_folder.h"

#include <cstdlib>
#include <filesystem>

namespace camshaft {

std::string user_cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return (std::filesystem::path(cache) / "camshaft").string();
  if (const char* home = std::getenv("HOME"); home && *home)
    return (std::filesystem::path(home) / ".cache" / "camshaft").string();
  return "";
}

}  // namespace camshaft
