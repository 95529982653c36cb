// Traces for a collector of OpenTelemetry.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "server/core/request.h"
#include "server/core/trace.h"

namespace camshaft::server {

/// Sends spans as OTLP in JSON over HTTP, from a thread of its own: nothing waits for the collector, and where it does
/// not answer spans are dropped beyond 4096.
class TraceExporter {
 public:
  /// Throws ServerError(invalid_argument) for a URL that is not "http://host[:port][/path]".
  explicit TraceExporter(const TraceSettings& settings);
  /// Sends what is left, for a second at most.
  ~TraceExporter();
  void add(const Request& request, const Timeline& timeline, Clock::time_point end);

 private:
  void run();
  bool send(const std::string& body);

  std::string host_, port_, path_, service_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::string> spans_;
  uint64_t dropped_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace camshaft::server
