// Messages from inside the library. Failures are thrown as Error, never logged instead; this is for the rest.
#pragma once

#include <string_view>

#include "base/logger.h"

namespace camshaft {

/// Whether a message of this level would be heard: ask before building one that is expensive. A relaxed load.
bool log_enabled(LogLevel level);

void log(LogLevel level, std::string_view message);
inline void log_debug(std::string_view message) {
  log(LogLevel::debug, message);
}
inline void log_info(std::string_view message) {
  log(LogLevel::info, message);
}
inline void log_warning(std::string_view message) {
  log(LogLevel::warning, message);
}
inline void log_error(std::string_view message) {
  log(LogLevel::error, message);
}

}  // namespace camshaft
