#include "server/core/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <deque>
#include <nlohmann/json.hpp>

#include "camshaft/logger.hpp"
#include "server/core/status.h"

namespace camshaft::server {

namespace {

constexpr size_t kept_errors = 50;

struct LogState {
  std::mutex mutex;
  LogSettings::Values values;
  int file = STDERR_FILENO;
  std::deque<RecentError> recent;
  std::atomic<uint32_t> wanted = 0b0111;  // a bit for each LogKind
};

// Never destroyed: threads may log while the process ends.
LogState& log_state() {
  static LogState& state = *new LogState;
  return state;
}

std::string escaped_line(std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      out += "\\n";
    else if (byte < 0x20 || byte == 0x7f)
      out.append("\\x").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
    else
      out += c;
  }
  return out;
}

std::string utc_text(std::chrono::system_clock::time_point time, bool triton) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  const auto micro = std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count() % 1000000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[96];
  if (triton)  // I1127 13:55:05.123456 4711]
    std::snprintf(text, sizeof text, "%02d%02d %02d:%02d:%02d.%06d", utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
                  utc.tm_min, utc.tm_sec, static_cast<int>(micro));
  else
    std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1,
                  utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, static_cast<int>(micro / 1000));
  return text;
}

std::string log_line(const std::string& format, LogKind kind, std::chrono::system_clock::time_point now,
                     std::string_view message) {
  static constexpr const char* names[] = {"error", "warning", "info", "verbose"};
  static constexpr char letters[] = "EWIV";
  const auto index = static_cast<size_t>(kind);
  if (format == "json") {
    const nlohmann::ordered_json line = {
        {"time", utc_text(now, false)}, {"level", names[index]}, {"pid", getpid()}, {"message", std::string(message)}};
    return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  const std::string pid = std::to_string(getpid());
  if (format == "ISO8601")
    return utc_text(now, false) + " " + letters[index] + " " + pid + "] " + escaped_line(message) + "\n";
  return letters[index] + utc_text(now, true) + " " + pid + "] " + escaped_line(message) + "\n";
}

void remember(LogState& state, std::chrono::system_clock::time_point now, std::string message) {
  state.recent.push_front({now, std::move(message)});
  if (state.recent.size() > kept_errors) state.recent.pop_back();
}

class LibraryMessages : public Logger {
 public:
  void log(LogLevel level, std::string_view message) noexcept override {
    static constexpr LogKind kinds[] = {LogKind::verbose, LogKind::info, LogKind::warning, LogKind::error};
    server::log(kinds[static_cast<size_t>(level)], message);
  }
};

}  // namespace

void log_library_messages() {
  set_logger(std::make_shared<LibraryMessages>());
}

LogSettings::Values LogSettings::values() const {
  LogState& state = log_state();
  const std::lock_guard lock(state.mutex);
  return state.values;
}

void LogSettings::set(const Values& values) {
  if (values.format != "default" && values.format != "ISO8601" && values.format != "json")
    throw ServerError(StatusCode::invalid_argument,
                      "invalid argument for log_format, got: " + values.format + ": there are default, ISO8601, json");
  LogState& state = log_state();
  const std::lock_guard lock(state.mutex);
  if (values.file != state.values.file) {
    int file = STDERR_FILENO;
    if (!values.file.empty()) {
      file = open(values.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
      if (file < 0)
        throw ServerError(StatusCode::invalid_argument, "cannot write to the log file '" + values.file + "'");
    }
    if (state.file != STDERR_FILENO) close(state.file);
    state.file = file;
  }
  state.values = values;
  state.wanted = (values.error ? 1u : 0u) | (values.warning ? 2u : 0u) | (values.info ? 4u : 0u) |
                 (values.verbose_level > 0 ? 8u : 0u);
}

void log(LogKind kind, std::string_view message) {
  LogState& state = log_state();
  const bool wanted = (state.wanted.load(std::memory_order_relaxed) >> static_cast<int>(kind) & 1) != 0;
  const bool serious = kind == LogKind::error || kind == LogKind::warning;
  if (!wanted && !serious) return;
  const auto now = std::chrono::system_clock::now();
  const std::lock_guard lock(state.mutex);
  if (serious) remember(state, now, std::string(message));
  if (!wanted) return;
  const std::string line = log_line(state.values.format, kind, now, message);
  // One call a line. Where it cannot be written there is nobody to tell.
  [[maybe_unused]] const ssize_t written = write(state.file, line.data(), line.size());
}

std::vector<RecentError> recent_errors() {
  LogState& state = log_state();
  const std::lock_guard lock(state.mutex);
  return {state.recent.begin(), state.recent.end()};
}

void note_error(std::string message) {
  LogState& state = log_state();
  const std::lock_guard lock(state.mutex);
  remember(state, std::chrono::system_clock::now(), std::move(message));
}

}  // namespace camshaft::server
