#include "base/log.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

namespace camshaft {
namespace {

class StderrLogger : public Logger {
 public:
  void log(LogLevel level, std::string_view message) noexcept override {
    const std::string_view name = to_string(level);
    std::fprintf(stderr, "camshaft: %.*s: %.*s\n", static_cast<int>(name.size()), name.data(),
                 static_cast<int>(message.size()), message.data());
  }
};

struct Sink {
  std::atomic<LogLevel> level{LogLevel::warning};
  std::mutex mutex;  // held during a call of the logger too: one caller at a time
  std::shared_ptr<Logger> logger = std::make_shared<StderrLogger>();
};

Sink& sink() {
  static Sink* const the_sink = new Sink;  // never destroyed: destructors of static objects may still log
  return *the_sink;
}

}  // namespace

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "unknown";
}

void set_logger(std::shared_ptr<Logger> logger, LogLevel level) {
  if (!logger) logger = std::make_shared<StderrLogger>();
  {
    const std::lock_guard lock(sink().mutex);
    std::swap(sink().logger, logger);
    sink().level.store(level, std::memory_order_relaxed);
  }
  // The old logger ends here, outside the lock: its destructor is the application's code.
}

void set_log_level(LogLevel level) {
  sink().level.store(level, std::memory_order_relaxed);
}

bool log_enabled(LogLevel level) {
  return level >= sink().level.load(std::memory_order_relaxed);
}

void log(LogLevel level, std::string_view message) {
  if (!log_enabled(level)) return;
  const std::lock_guard lock(sink().mutex);
  sink().logger->log(level, message);
}

}  // namespace camshaft
