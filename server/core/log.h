// The server's log, and what of it is asked for.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace camshaft::server {

/// As the protocol's logging extension has them; they may change while the server runs.
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

 private:
  mutable std::mutex mutex_;
  Values values_;
};

enum class LogKind { error, warning, info, verbose };

/// One line, with the time; of several threads the lines do not mix.
void log(LogKind kind, std::string_view message);

}  // namespace camshaft::server
