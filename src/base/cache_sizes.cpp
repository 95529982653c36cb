#include "base/cache_sizes.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace camshaft {

namespace {

// The C library adds up the caches of level 3 of a whole AMD processor: 384 MB on one of twelve, of which a core
// reaches one.
int64_t cache_bytes(int level, int name) {
  const int64_t described = described_cache_bytes("/sys/devices/system/cpu/cpu0/cache", level);
  return described > 0 ? described : std::max<int64_t>(sysconf(name), 0);
}

}  // namespace

int64_t described_cache_bytes(const std::string& folder, int level) {
  for (int index = 0;; ++index) {
    const std::string cache = folder + "/index" + std::to_string(index) + '/';
    int its_level = 0;
    if (!(std::ifstream(cache + "level") >> its_level)) return 0;
    std::string type;
    std::ifstream(cache + "type") >> type;
    if (its_level != level || type == "Instruction") continue;
    int64_t size = 0;
    char unit = 0;
    std::ifstream(cache + "size") >> size >> unit;
    return std::max<int64_t>(size, 0) * (unit == 'K' ? 1 << 10 : unit == 'M' ? 1 << 20 : 1);
  }
}

int64_t level2_cache_bytes() {
  static const int64_t bytes = cache_bytes(2, _SC_LEVEL2_CACHE_SIZE);
  return bytes;
}

int64_t level3_cache_bytes() {
  static const int64_t bytes = cache_bytes(3, _SC_LEVEL3_CACHE_SIZE);
  return bytes;
}

}  // namespace camshaft
