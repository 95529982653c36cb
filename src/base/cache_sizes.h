// How large the caches are that one core reaches.
#pragma once

#include <cstdint>
#include <string>

namespace camshaft {

/// Bytes; 0 where the system does not say, as in some virtual machines.
int64_t level2_cache_bytes();
int64_t level3_cache_bytes();

/// The data cache of a level as Linux describes it in `folder` (/sys/devices/system/cpu/cpu0/cache); 0 if it does not.
int64_t described_cache_bytes(const std::string& folder, int level);

}  // namespace camshaft
