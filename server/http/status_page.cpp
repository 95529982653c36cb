#include "server/http/status_page.h"

#include <nlohmann/json.hpp>

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

ordered_json page_statistics(const StatisticsSnapshot& all) {
  return {{"pending", all.pending},
          {"success", all.success.count},
          {"fail", all.fail.count},
          {"inferences", all.inference_count},
          {"executions", all.execution_count},
          {"queue_us", mean_us(all.queue)},
          {"compute_us", mean_us(all.compute_infer)}};
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
  const ordered_json document = {
      {"id", server.id()},           {"version", server.version()},
      {"ready", server.ready()},     {"uptime_s", std::chrono::duration<double>(Clock::now() - page_start).count()},
      {"models", std::move(models)}, {"errors", std::move(errors)}};
  HttpReply reply;
  reply.text = document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  reply.headers.emplace_back("Cache-Control", "no-store");
  return reply;
}

}  // namespace camshaft::server
