// Which requests are traced, and where to.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/core/request.h"

namespace camshaft::server {

/// As the protocol's trace extension has them, for the server or one model.
struct TraceSettings {
  std::string file;                          ///< empty: nothing is traced in mode "triton"
  std::vector<std::string> level = {"OFF"};  ///< OFF or TIMESTAMPS
  uint32_t rate = 1000;                      ///< every so many requests
  int64_t count = -1;                        ///< how many more; -1: no end
  uint32_t log_frequency = 0;                ///< a file for each so many, <file>.0, …; 0: one
  std::string mode = "triton";               ///< or "opentelemetry"
  /// Where traces in mode "opentelemetry" go: a collector that takes OTLP as JSON, "http://host:port/path".
  std::string url = "http://localhost:4318/v1/traces";
  std::string service_name = "camshaft";

  bool active() const { return level != std::vector<std::string>{"OFF"} && (mode == "opentelemetry" || !file.empty()); }
};

class TraceWriter;
class TraceExporter;

/// Safe from several threads.
class TraceSettingsStore {
 public:
  /// Throws ServerError(invalid_argument), unsupported for the level TENSORS.
  explicit TraceSettingsStore(TraceSettings settings);
  /// What was traced is written when it ends.
  ~TraceSettingsStore();
  /// An empty name: the server's. What a model has no setting of its own for is the server's.
  TraceSettings get(const std::string& model) const;
  /// By the names that clients use: "trace_level" (several texts), "trace_rate", "trace_count", "log_frequency"; no
  /// text: back to the server's, or to the one of the start. Other names mean nothing. Throws
  /// ServerError(invalid_argument), and then changes nothing.
  void update(const std::string& model, const std::map<std::string, std::vector<std::string>>& settings);
  /// Decides whether a request is traced, and gives it its name then.
  void sample(Request& request);
  /// Writes what a traced request did. `request` needs no more than its names and its trace_id.
  void finished(const Request& request, const Timeline& timeline, Clock::time_point end);

 private:
  using Changes = std::map<std::string, std::vector<std::string>>;
  struct Counters {
    uint64_t seen = 0, traced = 0;
  };
  TraceSettings with_changes(const std::string& model) const;

  mutable std::mutex mutex_;
  const TraceSettings start_;
  std::map<std::string, Changes> changes_;    // by model; of the server by ""
  std::map<std::string, Counters> counters_;  // by model where it has settings of its own
  std::atomic<bool> active_ = false;          // anything may be traced
  uint64_t next_id_ = 1;
  std::unique_ptr<TraceWriter> writer_;
  std::unique_ptr<TraceExporter> exporter_;
};

}  // namespace camshaft::server
