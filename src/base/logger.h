// Where the library's messages go.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace camshaft {

enum class LogLevel : uint8_t { debug, info, warning, error };

/// "debug", "info", "warning", "error".
std::string_view to_string(LogLevel level);

/// Receives messages. Derive from it to send them to an application's own log.
class Logger {
 public:
  virtual ~Logger() = default;
  /// `message` has no line end. Called from any thread, but by one at a time. Must not call back into the library.
  virtual void log(LogLevel level, std::string_view message) noexcept = 0;
};

/// Sends all messages of `level` and above to `logger`, for the whole process; nullptr brings back the logger of the
/// start, which writes to stderr. At the start, warnings and errors are written.
void set_logger(std::shared_ptr<Logger> logger, LogLevel level = LogLevel::warning);
/// Changes the level alone.
void set_log_level(LogLevel level);

}  // namespace camshaft
