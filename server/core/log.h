// The server's log, and what of it is asked for.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace camshaft::server {

/// As the protocol's logging extension has them; they may change while the server runs, and hold for all of the
/// process.
class LogSettings {
 public:
  struct Values {
    std::string file;  ///< empty: the standard error
    bool info = true, warning = true, error = true;
    uint32_t verbose_level = 0;
    std::string format = "default";  ///< or "ISO8601"; "json": a line is an object
  };
  Values values() const;
  /// Throws ServerError(invalid_argument) for a file that cannot be opened, an unknown format.
  void set(const Values& values);
};

enum class LogKind { error, warning, info, verbose };

/// One line, with the time; of several threads the lines do not mix. Characters that would end the line, or do
/// something to a terminal, are written as "\n", "\x1b": what clients send may be part of a message.
void log(LogKind kind, std::string_view message);

/// From now on what libcamshaft says is part of this log, in its form and its file.
void log_library_messages();

/// What went wrong last, the newest first: errors and warnings of the log, and requests that failed by the server's
/// fault.
struct RecentError {
  std::chrono::system_clock::time_point time;
  std::string message;
};
std::vector<RecentError> recent_errors();
/// One that is not worth a line in the log.
void note_error(std::string message);

}  // namespace camshaft::server
