// Guard zones: marked bytes around what a plugin may write, which show what it wrote beside it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ir/plugin.h"

namespace camshaft {

constexpr size_t guard_zone_bytes = 4096;  // before and behind
constexpr auto guard_mark = std::byte{0xc9};

/// Throws PluginViolation where `memory`, which is `what` between two zones of marks, has other bytes in a zone. `who`
/// is the plugin.
void check_guard_zones(const std::string& who, const std::string& what, std::span<const std::byte> memory);

}  // namespace camshaft
