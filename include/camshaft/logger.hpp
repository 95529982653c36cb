// Where the library's messages go.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "camshaft/camshaft.h"
#include "camshaft/error.hpp"

namespace camshaft {
inline namespace v1 {

enum class LogLevel : int32_t {
  debug = CAMSHAFT_LOG_DEBUG,
  info = CAMSHAFT_LOG_INFO,
  warning = CAMSHAFT_LOG_WARNING,
  error = CAMSHAFT_LOG_ERROR
};

/// Receives messages. Derive from it to send them to an application's own log.
class Logger {
 public:
  virtual ~Logger() = default;
  /// `message` has no line end. Called from any thread, but by one at a time. Must not call back into the library.
  virtual void log(LogLevel level, std::string_view message) noexcept = 0;
};

/// Sends all messages of `level` and above to `logger`, for the whole process; nullptr brings back the logger of the
/// start, which writes to stderr. At the start, warnings and errors are written.
inline void set_logger(std::shared_ptr<Logger> logger, LogLevel level = LogLevel::warning) {
  if (!logger) {
    detail::check(camshaft_set_logger(nullptr, nullptr, nullptr, static_cast<int32_t>(level)));
    return;
  }
  auto held = std::make_unique<std::shared_ptr<Logger>>(std::move(logger));
  detail::check(camshaft_set_logger(
      [](void* user, int32_t at, const char* message, size_t length) {
        (*static_cast<std::shared_ptr<Logger>*>(user))->log(static_cast<LogLevel>(at), {message, length});
      },
      held.get(), [](void* user) { delete static_cast<std::shared_ptr<Logger>*>(user); }, static_cast<int32_t>(level)));
  held.release();
}
/// Changes the level alone.
inline void set_log_level(LogLevel level) {
  detail::check(camshaft_set_log_level(static_cast<int32_t>(level)));
}

}  // namespace v1
}  // namespace camshaft
