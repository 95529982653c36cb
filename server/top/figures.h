// What `camshaft top` shows: the difference of two looks at a server.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace camshaft::server {

/// Of a version of a model, over the time between the two looks. What needs requests is nothing where there were none.
struct ModelFigures {
  std::string name, version, state, reason;
  bool loaded = false;  ///< only then the rest means something
  int64_t waiting = 0;
  double requests_per_second = 0, failures_per_second = 0;
  std::optional<double> batch;               ///< elements a run, the mean
  std::optional<double> queue_us, run_us;    ///< means of a request
  std::optional<double> p50_us, p99_us;      ///< infinite: above the histogram's last bound
  std::map<int64_t, uint64_t> runs;          ///< by the size of their batch
  std::map<std::string, uint64_t> failures;  ///< since the start, by their reason
};

struct RecentFailure {
  int64_t time_ms = 0;  ///< since 1970
  std::string message;
};

struct Figures {
  std::string id, version;
  bool ready = false;
  double uptime_s = 0;
  double seconds = 0;  ///< between the looks; 0: since the server's start, there was no look before
  double cores = 0;    ///< of processor time, in the process of the server
  int64_t resident_bytes = 0, machine_bytes = 0, machine_cores = 0;
  std::vector<ModelFigures> models;
  std::vector<RecentFailure> errors;  ///< the last ones, the newest first
};

/// `before`: null, or an earlier document of the same server; one of another process counts as null. A document that
/// lacks figures throws nlohmann::json::exception.
Figures compare_looks(const nlohmann::json& before, const nlohmann::json& now);

/// The time within which `share` of what a histogram counts is: within a bucket by the line through its bounds.
std::optional<double> quantile_us(const std::vector<double>& bounds_us, const std::vector<uint64_t>& counts,
                                  double share);

nlohmann::ordered_json figures_json(const Figures& figures);

}  // namespace camshaft::server
