// Which requests are traced, and where to.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "server/core/request.h"

namespace camshaft::server {

/// As the protocol's trace extension has them, for the server or one model.
struct TraceSettings {
  std::string file;                            ///< empty: nothing is traced
  std::vector<std::string> level = {"OFF"};    ///< OFF, TIMESTAMPS, TENSORS
  uint32_t rate = 1000;                        ///< every so many requests
  int64_t count = -1;                          ///< how many more; -1: no end
  uint32_t log_frequency = 0;                  ///< a file for each so many; 0: one at the end
  std::string mode = "triton";                 ///< or "opentelemetry"
};

/// Safe from several threads.
class TraceSettingsStore {
 public:
  explicit TraceSettingsStore(TraceSettings settings) : server_(std::move(settings)) {}
  /// An empty name: the server's.
  TraceSettings get(const std::string& model) const;
  /// By the names that clients use: "trace_file", "trace_level", "trace_rate", "trace_count", "log_frequency",
  /// "trace_mode"; several texts for levels, none: back to the server's. Throws ServerError(invalid_argument).
  void update(const std::string& model, const std::map<std::string, std::vector<std::string>>& settings);
  /// Decides whether a request is traced, and gives it its name then.
  void sample(Request& request);
  /// Writes what a traced request did.
  void finished(const Request& request, const Timeline& timeline, Clock::time_point end);

 private:
  mutable std::mutex mutex_;
  TraceSettings server_;
  std::map<std::string, TraceSettings> models_;
  uint64_t seen_ = 0;
};

}  // namespace camshaft::server
