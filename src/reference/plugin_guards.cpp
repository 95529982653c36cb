#include "reference/plugin_guards.h"

#include <fmt/format.h>

#include <algorithm>

namespace camshaft {

void check_guard_zones(const std::string& who, const std::string& what, std::span<const std::byte> memory) {
  const auto fail = [&](const std::string& where) {
    throw PluginViolation(
        fmt::format("{} wrote outside of {} ({} bytes): {}", who, what, memory.size() - 2 * guard_zone_bytes, where));
  };
  const auto is_wrong = [](std::byte b) { return b != guard_mark; };
  const auto before = memory.first(guard_zone_bytes), behind = memory.last(guard_zone_bytes);
  if (const auto it = std::find_if(before.begin(), before.end(), is_wrong); it != before.end())
    fail(fmt::format("{} bytes before its begin", before.end() - it));
  if (const auto it = std::find_if(behind.rbegin(), behind.rend(), is_wrong); it != behind.rend())
    fail(fmt::format("up to {} bytes beyond its end", behind.rend() - it));
}

}  // namespace camshaft
