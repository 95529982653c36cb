#include "base/available_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "base/memory_limit.h"

namespace camshaft {
namespace {

/// The number behind a word at the start of a line.
std::optional<size_t> find_number(const char* file, const std::string& word) {
  std::ifstream in(file);
  std::string first;
  while (in >> first) {
    size_t number = 0;
    if (first == word && in >> number) return number;
    in.clear();
    std::getline(in, first);
  }
  return std::nullopt;
}

std::optional<size_t> number_in(const char* file) {
  size_t number = 0;
  if (std::ifstream(file) >> number) return number;
  return std::nullopt;
}

/// What a control group leaves; pages of files that nobody used lately make room.
std::optional<size_t> left_of_group(const char* limit, const char* used, const char* statistics,
                                    const char* inactive_file) {
  const std::optional<size_t> most = number_in(limit), now = number_in(used);
  if (!most || !now) return std::nullopt;
  const size_t spare = std::min(find_number(statistics, inactive_file).value_or(0), *now);
  return *most - std::min(*most, *now - spare);
}

}  // namespace

size_t available_memory() {
  const std::optional<size_t> kibibytes = find_number("/proc/meminfo", "MemAvailable:");
  size_t bytes = kibibytes ? *kibibytes * 1024 : physical_memory() / 2;
  for (const auto& left :
       {left_of_group("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat",
                      "inactive_file"),
        left_of_group("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                      "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file")})
    if (left) bytes = std::min(bytes, *left);
  return bytes;
}

}  // namespace camshaft
