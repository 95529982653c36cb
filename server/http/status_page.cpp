#include "server/http/status_page.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "page_texts.h"
#include "server/http/model_routes.h"

namespace camshaft::server {

namespace {

using nlohmann::ordered_json;

const Clock::time_point page_start = Clock::now();

ordered_json histogram_json(const LatencyHistogram& histogram) {
  return {{"bounds_us", LatencyHistogram::bounds_us}, {"counts", histogram.counts}};
}

double mean_us(const DurationStatistic& duration) {
  return duration.count == 0 ? 0 : static_cast<double>(duration.ns) / static_cast<double>(duration.count) / 1000;
}

const char* reason_name(FailureReason reason) {
  switch (reason) {
    case FailureReason::rejected:
      return "rejected";
    case FailureReason::cancelled:
      return "cancelled";
    case FailureReason::backend:
      return "backend";
    case FailureReason::other:
      break;
  }
  return "other";
}

// Sums, of which a reader makes the means of the time between two looks.
ordered_json page_statistics(const StatisticsSnapshot& all) {
  ordered_json batches = ordered_json::array(), failures = ordered_json::object();
  for (const auto& [size, batch] : all.batches) batches.push_back({size, batch.compute_infer.count});
  for (const auto& [reason, count] : all.failures) failures[reason_name(reason)] = count;
  return {{"pending", all.pending},
          {"success", all.success.count},
          {"fail", all.fail.count},
          {"inferences", all.inference_count},
          {"executions", all.execution_count},
          {"queue_us", mean_us(all.queue)},
          {"compute_us", mean_us(all.compute_infer)},
          {"computed", all.compute_infer.count},
          {"queue_total_us", all.queue.ns / 1000},
          {"compute_total_us", all.compute_infer.ns / 1000},
          {"batches", std::move(batches)},
          {"failures", std::move(failures)}};
}

// Of the server's own process; those of Python models are others.
ordered_json process_figures() {
  uint64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return {{"id", getpid()},
          {"resident_bytes", resident * page},
          {"cpu_s", seconds(used.ru_utime) + seconds(used.ru_stime)},
          {"machine_bytes", static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * page},
          {"machine_cores", std::thread::hardware_concurrency()}};
}

}  // namespace

HttpReply status_page() {
  HttpReply reply;
  reply.content_type = "text/html; charset=utf-8";
  reply.text = page_texts::status_html;
  reply.headers = {{"Content-Security-Policy",
                    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
                    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
                   {"X-Content-Type-Options", "nosniff"},
                   {"Referrer-Policy", "no-referrer"}};
  return reply;
}

HttpReply status_data(Server& server) {
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Model>> loaded;
  for (const std::shared_ptr<Model>& model : server.models().all()) loaded[{model->name(), model->version()}] = model;
  ordered_json models = ordered_json::array();
  for (const IndexEntry& entry : server.models().index(false)) {
    ordered_json item = {
        {"name", entry.name}, {"version", entry.version}, {"state", state_name(entry.state)}, {"reason", entry.reason}};
    if (const auto found = loaded.find({entry.name, entry.version}); found != loaded.end()) {
      const StatisticsSnapshot all = found->second->statistics().snapshot();
      item["statistics"] = page_statistics(all);
      item["latency"] = histogram_json(all.latency);
    }
    models.push_back(std::move(item));
  }
  ordered_json errors = ordered_json::array();
  for (const RecentError& error : recent_errors())
    errors.push_back(
        {{"time_ms", std::chrono::duration_cast<std::chrono::milliseconds>(error.time.time_since_epoch()).count()},
         {"message", error.message}});
  const ordered_json document = {{"id", server.id()},
                                 {"version", server.version()},
                                 {"ready", server.ready()},
                                 {"uptime_s", std::chrono::duration<double>(Clock::now() - page_start).count()},
                                 {"process", process_figures()},
                                 {"models", std::move(models)},
                                 {"errors", std::move(errors)}};
  HttpReply reply;
  reply.text = document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  reply.headers.emplace_back("Cache-Control", "no-store");
  return reply;
}

}  // namespace camshaft::server
