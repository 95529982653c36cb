#include "server/core/metrics.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <tuple>

#include "server/core/gpu_metrics.h"
#include "server/core/server.h"

namespace camshaft::server {

namespace {

// Writes the text form: families with help and type, samples with labels.
class Exposition {
 public:
  void family(const char* name, const char* type, const char* help) {
    text_.append("# HELP ").append(name).append(" ").append(help);
    text_.append("\n# TYPE ").append(name).append(" ").append(type).append("\n");
  }
  void sample(const std::string& name, const std::string& labels, const std::string& value) {
    text_.append(name);
    if (!labels.empty()) text_.append("{").append(labels).append("}");
    text_.append(" ").append(value).append("\n");
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string label_text(const std::string& value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

struct Sampled {
  std::shared_ptr<Model> model;
  std::string labels;
  StatisticsSnapshot statistics;
};

std::string labels_of(const Model& model) {
  std::string labels = "model=\"" + label_text(model.name()) + "\",version=\"" + label_text(model.version()) + "\"";
  for (const auto& [name, value] : model.config().metric_tags()) {
    bool plain = !name.empty() && (name[0] < '0' || name[0] > '9');
    for (const char c : name) plain &= c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    if (plain) labels.append(",").append(name).append("=\"").append(label_text(value)).append("\"");
  }
  return labels;
}

using Figure = std::function<uint64_t(const StatisticsSnapshot&)>;

void add_counters(Exposition& out, const std::vector<Sampled>& models, const char* name, const char* help,
                  const Figure& figure, const char* type = "counter") {
  out.family(name, type, help);
  for (const Sampled& model : models) out.sample(name, model.labels, std::to_string(figure(model.statistics)));
}

void add_failures(Exposition& out, const std::vector<Sampled>& models) {
  static constexpr std::pair<FailureReason, const char*> reasons[] = {{FailureReason::rejected, "REJECTED"},
                                                                      {FailureReason::cancelled, "CANCELED"},
                                                                      {FailureReason::backend, "BACKEND"},
                                                                      {FailureReason::other, "OTHER"}};
  constexpr const char* name = "nv_inference_request_failure";
  out.family(name, "counter", "Number of failed inference requests, all batch sizes");
  for (const Sampled& model : models)
    for (const auto& [reason, text] : reasons) {
      const auto found = model.statistics.failures.find(reason);
      const uint64_t count = found == model.statistics.failures.end() ? 0 : found->second;
      out.sample(name, model.labels + ",reason=\"" + text + "\"", std::to_string(count));
    }
}

void add_first_response(Exposition& out, const std::vector<Sampled>& models) {
  const std::string name = "nv_inference_first_response_histogram_ms";
  out.family(name.c_str(), "histogram", "Duration from request to first response in milliseconds");
  for (const Sampled& model : models) {
    const LatencyHistogram& histogram = model.statistics.first_response;
    const std::string count = std::to_string(histogram.count());
    out.sample(name + "_count", model.labels, count);
    out.sample(name + "_sum", model.labels, std::to_string(histogram.sum_us / 1000));
    for (const uint64_t ms : {100, 500, 2000, 5000})
      out.sample(name + "_bucket", model.labels + ",le=\"" + std::to_string(ms) + "\"",
                 std::to_string(histogram.count_until(1000 * ms)));
    out.sample(name + "_bucket", model.labels + ",le=\"+Inf\"", count);
  }
}

void add_latencies(Exposition& out, const std::vector<Sampled>& models) {
  using S = const StatisticsSnapshot&;
  const auto us = [](const DurationStatistic& duration) { return duration.ns / 1000; };
  add_counters(out, models, "nv_inference_request_duration_us",
               "Cumulative inference request duration in microseconds (includes cached requests)",
               [us](S s) { return us(s.success); });
  add_counters(out, models, "nv_inference_queue_duration_us",
               "Cumulative inference queuing duration in microseconds (includes cached requests)",
               [us](S s) { return us(s.queue); });
  add_counters(out, models, "nv_inference_compute_input_duration_us",
               "Cumulative compute input duration in microseconds (does not include cached requests)",
               [us](S s) { return us(s.compute_input); });
  add_counters(out, models, "nv_inference_compute_infer_duration_us",
               "Cumulative compute inference duration in microseconds (does not include cached requests)",
               [us](S s) { return us(s.compute_infer); });
  add_counters(out, models, "nv_inference_compute_output_duration_us",
               "Cumulative inference compute output duration in microseconds (does not include cached requests)",
               [us](S s) { return us(s.compute_output); });
  add_counters(out, models, "nv_cache_hit_duration_per_model", "Total cache hit duration per model, in microseconds",
               [us](S s) { return us(s.cache_hit); });
  add_counters(out, models, "nv_cache_miss_duration_per_model",
               "Total cache miss (insert+lookup) duration per model, in microseconds",
               [us](S s) { return us(s.cache_miss); });
}

// Counts are exact: of nine digits a counter would stand still from 10^9 on.
std::string own_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  if (std::abs(value) < 0x1p53 && value == std::floor(value)) {
    std::snprintf(text, sizeof text, "%.0f", value);
    return text;
  }
  const char* end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, static_cast<size_t>(end - text)};
}

void add_summaries(Exposition& out, const std::vector<Sampled>& models, const std::vector<double>& quantiles) {
  static constexpr std::tuple<SummaryKind, const char*, const char*> kinds[] = {
      {SummaryKind::request, "nv_inference_request_summary_us",
       "Summary of inference request duration in microseconds (includes cached requests)"},
      {SummaryKind::queue, "nv_inference_queue_summary_us", "Summary of inference queuing duration in microseconds"},
      {SummaryKind::compute_input, "nv_inference_compute_input_summary_us",
       "Summary of compute input duration in microseconds (does not include cached requests)"},
      {SummaryKind::compute_infer, "nv_inference_compute_infer_summary_us",
       "Summary of compute inference duration in microseconds (does not include cached requests)"},
      {SummaryKind::compute_output, "nv_inference_compute_output_summary_us",
       "Summary of inference compute output duration in microseconds (does not include cached requests)"},
      {SummaryKind::cache_hit, "nv_cache_hit_summary_per_model", "Summary of cache hit duration in microseconds"},
      {SummaryKind::cache_miss, "nv_cache_miss_summary_per_model", "Summary of cache miss duration in microseconds"}};
  for (const auto& [kind, name, help] : kinds) {
    out.family(name, "summary", help);
    for (const Sampled& model : models) {
      const SummaryFigures figures = model.model->statistics().summary(kind, quantiles);
      for (size_t i = 0; i < figures.quantiles_us.size(); ++i)
        out.sample(name, model.labels + ",quantile=\"" + own_text(quantiles[i]) + "\"",
                   own_text(figures.quantiles_us[i]));
      out.sample(std::string(name) + "_sum", model.labels, std::to_string(figures.sum_us));
      out.sample(std::string(name) + "_count", model.labels, std::to_string(figures.count));
    }
  }
}

std::string real_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

void add_gpus(Exposition& out, const std::vector<GpuFigures>& gpus) {
  const auto add = [&](const char* name, const char* help, const std::function<std::string(const GpuFigures&)>& figure,
                       const char* type = "gauge") {
    if (gpus.empty()) return;
    out.family(name, type, help);
    for (const GpuFigures& gpu : gpus) out.sample(name, "gpu_uuid=\"" + label_text(gpu.uuid) + "\"", figure(gpu));
  };
  using G = const GpuFigures&;
  add("nv_gpu_utilization", "GPU utilization rate [0.0 - 1.0)", [](G g) { return real_text(g.utilization); });
  add("nv_gpu_memory_total_bytes", "GPU total memory, in bytes", [](G g) { return std::to_string(g.memory_total); });
  add("nv_gpu_memory_used_bytes", "GPU used memory, in bytes", [](G g) { return std::to_string(g.memory_used); });
  add("nv_gpu_power_usage", "GPU power usage in watts", [](G g) { return real_text(g.power_usage); });
  add("nv_gpu_power_limit", "GPU power management limit in watts", [](G g) { return real_text(g.power_limit); });
  add(
      "nv_energy_consumption", "GPU energy consumption in joules since its driver was loaded",
      [](G g) { return real_text(g.energy); }, "counter");
}

void add_own(Exposition& out, const OwnMetricFamilies& families) {
  for (const auto& [name, family] : families) {
    out.family(name.c_str(), family.kind.c_str(), family.description.c_str());
    for (const auto& [labels, metric] : family.metrics) {
      if (family.kind != "histogram") {
        out.sample(name, labels, own_text(metric.value));
        continue;
      }
      const std::string front = labels.empty() ? "" : labels + ",";
      uint64_t count = 0;
      for (size_t i = 0; i < metric.counts.size(); ++i) {
        count += metric.counts[i];
        const std::string bound = i < metric.bounds.size() ? own_text(metric.bounds[i]) : "+Inf";
        out.sample(name + "_bucket", front + "le=\"" + bound + "\"", std::to_string(count));
      }
      out.sample(name + "_sum", labels, own_text(metric.sum));
      out.sample(name + "_count", labels, std::to_string(count));
    }
  }
}

bool truth_of(std::string_view name, std::string_view value) {
  if (value == "true" || value == "1") return true;
  if (value == "false" || value == "0") return false;
  throw ServerError(StatusCode::invalid_argument, "--metrics-config " + std::string(name) + " is 'true' or 'false'");
}

// "0.5:0.05,0.99:0.001": quantiles, each with the error that its rank may have; here it has none.
std::vector<double> quantiles_of(std::string_view value) {
  std::vector<double> quantiles;
  while (!value.empty()) {
    const std::string_view one = value.substr(0, value.find(','));
    value.remove_prefix(std::min(value.size(), one.size() + 1));
    double share = -1, error = 0;
    const auto read = std::from_chars(one.data(), one.data() + one.size(), share);
    const char* end = read.ptr;
    if (end != one.data() + one.size() && *end == ':')
      end = std::from_chars(end + 1, one.data() + one.size(), error).ptr;
    if (end != one.data() + one.size() || !(share >= 0 && share <= 1))
      throw ServerError(StatusCode::invalid_argument,
                        "--metrics-config summary_quantiles has pairs of a quantile from 0 to 1 and its error, as "
                        "0.5:0.05,0.99:0.001; '" +
                            std::string(one) + "' is none");
    quantiles.push_back(share);
  }
  return quantiles;
}

}  // namespace

void MetricsOptions::configure(std::string_view setting) {
  const size_t equals = setting.find('=');
  const std::string_view name = setting.substr(0, equals);
  const std::string_view value = equals == setting.npos ? "" : setting.substr(equals + 1);
  if (name == "counter_latencies")
    counter_latencies = truth_of(name, value);
  else if (name == "histogram_latencies")
    histogram_latencies = truth_of(name, value);
  else if (name == "summary_latencies")
    summary_latencies = truth_of(name, value);
  else if (name == "summary_quantiles")
    summary_quantiles = quantiles_of(value);
  else
    throw ServerError(StatusCode::invalid_argument, "unknown --metrics-config '" + std::string(name) +
                                                        "': there are counter_latencies, histogram_latencies, "
                                                        "summary_latencies and summary_quantiles");
}

Metrics::Machine Metrics::machine() {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - read_ < std::chrono::milliseconds(options_.interval_ms)) return machine_;
  read_ = now;
  // "cpu user nice system idle iowait irq softirq steal": what is not idle is busy.
  std::ifstream stat("/proc/stat");
  std::string word;
  uint64_t ticks = 0, idle = 0, value = 0;
  stat >> word;
  for (int i = 0; i < 8 && stat >> value; ++i) {
    ticks += value;
    if (i == 3 || i == 4) idle += value;
  }
  const uint64_t busy = ticks - idle;
  if (ticks > ticks_)
    machine_.cpu_utilization = static_cast<double>(busy - busy_) / static_cast<double>(ticks - ticks_);
  busy_ = busy;
  ticks_ = ticks;
  std::ifstream memory("/proc/meminfo");
  uint64_t available = 0;
  for (std::string line; std::getline(memory, line);) {
    std::istringstream in(line);
    in >> word >> value;
    if (word == "MemTotal:") machine_.memory_total = 1024 * value;
    if (word == "MemAvailable:") available = 1024 * value;
  }
  machine_.memory_used = machine_.memory_total - available;
  return machine_;
}

std::vector<GpuFigures> Metrics::machine_gpus() {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - gpus_read_ >= std::chrono::milliseconds(options_.interval_ms)) {
    gpus_read_ = now;
    gpus_ = gpu_figures();
  }
  return gpus_;
}

std::string Metrics::text() {
  std::vector<Sampled> models;
  for (const std::shared_ptr<Model>& model : server_.models().all())
    models.push_back({model, labels_of(*model), model->statistics().snapshot()});
  Exposition out;
  using S = const StatisticsSnapshot&;
  add_counters(out, models, "nv_inference_request_success", "Number of successful inference requests, all batch sizes",
               [](S s) { return s.success.count; });
  add_failures(out, models);
  add_counters(out, models, "nv_inference_count", "Number of inferences performed (does not include cached requests)",
               [](S s) { return s.inference_count; });
  add_counters(out, models, "nv_inference_exec_count",
               "Number of model executions performed (does not include cached requests)",
               [](S s) { return s.execution_count; });
  if (options_.counter_latencies) add_latencies(out, models);
  add_counters(out, models, "nv_cache_num_hits_per_model", "Number of cache hits per model",
               [](S s) { return s.cache_hit.count; });
  add_counters(out, models, "nv_cache_num_misses_per_model", "Number of cache misses per model",
               [](S s) { return s.cache_miss.count; });
  add_counters(
      out, models, "nv_inference_pending_request_count",
      "Instantaneous number of pending requests awaiting execution per-model.",
      [](S s) { return static_cast<uint64_t>(std::max<int64_t>(s.pending, 0)); }, "gauge");
  out.family("nv_model_load_duration_secs", "gauge", "Model load time in seconds");
  for (const Sampled& model : models)
    out.sample("nv_model_load_duration_secs", model.labels, real_text(model.statistics.load_seconds));
  if (options_.histogram_latencies) add_first_response(out, models);
  if (options_.summary_latencies) add_summaries(out, models, options_.summary_quantiles);
  if (options_.cpu) {
    const Machine figures = machine();
    out.family("nv_cpu_utilization", "gauge", "CPU utilization rate [0.0 - 1.0]");
    out.sample("nv_cpu_utilization", "", real_text(figures.cpu_utilization));
    out.family("nv_cpu_memory_total_bytes", "gauge", "CPU total memory (RAM), in bytes");
    out.sample("nv_cpu_memory_total_bytes", "", std::to_string(figures.memory_total));
    out.family("nv_cpu_memory_used_bytes", "gauge", "CPU used memory (RAM), in bytes");
    out.sample("nv_cpu_memory_used_bytes", "", std::to_string(figures.memory_used));
  }
  if (options_.gpu) add_gpus(out, machine_gpus());
  OwnMetricFamilies own;
  for (const std::shared_ptr<Model>& model : server_.models().all()) model->statistics().own_metrics().add_to(own);
  add_own(out, own);
  return out.take();
}

}  // namespace camshaft::server
