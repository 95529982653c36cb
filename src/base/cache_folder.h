// Where the user's caches are.
#pragma once

#include <string>

namespace camshaft {

/// $XDG_CACHE_HOME/camshaft, or that below ~/.cache; empty where neither is known.
std::string user_cache_folder();

}  // namespace camshaft
