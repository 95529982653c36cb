#include "tools/trtexec/summary.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <numeric>

#include "tools/tensor_text.h"

namespace camshaft::tools::trtexec {

namespace {

struct Statistics {
  double min = 0, max = 0, mean = 0, median = 0;
  std::vector<double> percentiles;
  double deviation = 0;
};

// trtexec's percentile: the element so many from the end.
double percentile_of(const std::vector<double>& sorted, double percentile) {
  const auto all = static_cast<double>(sorted.size());
  const double index = all - 1 - std::floor((1 - percentile / 100) * all);
  return sorted[static_cast<size_t>(std::max(index, 0.0))];
}

Statistics statistics_of(std::vector<double> values, const std::vector<double>& percentiles) {
  std::ranges::sort(values);
  Statistics result;
  if (values.empty()) return result;
  const size_t half = values.size() / 2;
  result.min = values.front();
  result.max = values.back();
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  result.median = values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
  for (const double percentile : percentiles) result.percentiles.push_back(percentile_of(values, percentile));
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.deviation = std::sqrt(squares / static_cast<double>(values.size()));
  return result;
}

std::string line_of(const char* name, const Statistics& s, const std::vector<double>& percentiles) {
  std::string text = fmt::format("{}: min = {:.6g} ms, max = {:.6g} ms, mean = {:.6g} ms, median = {:.6g} ms", name,
                                 s.min, s.max, s.mean, s.median);
  for (size_t i = 0; i < s.percentiles.size(); ++i)
    text += fmt::format(", percentile({:g}%) = {:.6g} ms", percentiles[i], s.percentiles[i]);
  return text;
}

std::vector<double> latencies(const Measured& measured) {
  std::vector<double> times;
  for (const Query& query : measured.queries) times.push_back(query.latency());
  return times;
}

void print_trace(const Measured& measured, int64_t runs) {
  say('I', "=== Trace details ===");
  say('I', fmt::format("Trace averages of {} runs:", runs));
  const std::vector<double> times = latencies(measured);
  const auto group = static_cast<size_t>(runs);
  for (size_t i = 0; i + group <= times.size(); i += group) {
    const auto begin = times.begin() + static_cast<ptrdiff_t>(i);
    const double mean = std::accumulate(begin, begin + static_cast<ptrdiff_t>(group), 0.0) / static_cast<double>(runs);
    say('I', fmt::format("Average on {} runs - GPU latency: {:.6g} ms - Host latency: {:.6g} ms (enqueue {:.6g} ms)",
                         runs, mean, mean, mean));
  }
}

}  // namespace

void say(char severity, const std::string& line) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  const std::string text = fmt::format("[{:%m/%d/%Y-%H:%M:%S}] [{}] {}\n", local, severity, line);
  fmt::print(severity == 'E' ? stderr : stdout, "{}", text);
}

std::string elements(const Tensor& tensor) {
  std::string text;
  if (tensor.dtype() == DType::string) {
    for (int64_t i = 0; i < tensor.size(); ++i) text += (i ? " " : "") + tensor.text(i);
    return text;
  }
  const Tensor wide = tensor.converted(DType::f64);
  for (int64_t i = 0; i < wide.size(); ++i) text += fmt::format("{}{:g}", i ? " " : "", wide.as<double>()[i]);
  return text;
}

std::string dims_text(const Dims& dims) {
  return fmt::format("{}", fmt::join(dims, "x"));
}

void print_summary(const Measured& measured, const ReportSettings& report, int streams, bool on_gpu) {
  say('I', fmt::format("Warmup completed {} queries over {:.6g} ms", measured.warmup_queries, measured.warmup_ms));
  say('I', fmt::format("Timing trace has {} queries over {:.6g} s", measured.queries.size(), measured.seconds));
  say('I', "");
  print_trace(measured, report.average_runs);
  const Statistics latency = statistics_of(latencies(measured), report.percentiles);
  Statistics none;
  none.percentiles.resize(report.percentiles.size());
  const auto count = static_cast<double>(measured.queries.size());
  say('I', "=== Performance summary ===");
  say('I', fmt::format("Throughput: {:.6g} qps", count / measured.seconds));
  say('I', line_of("Latency", latency, report.percentiles));
  say('I', line_of("Enqueue Time", latency, report.percentiles));
  say('I', line_of("H2D Latency", none, report.percentiles));
  say('I', line_of("GPU Compute Time", latency, report.percentiles));
  say('I', line_of("D2H Latency", none, report.percentiles));
  say('I', fmt::format("Total Host Walltime: {:.6g} s", measured.seconds));
  say('I', fmt::format("Total GPU Compute Time: {:.6g} s", latency.mean * count * 1e-3));
  if (latency.mean > 0 && latency.deviation / latency.mean > 0.025)
    say('W', fmt::format("* GPU compute time is unstable, with coefficient of variance = {:.6g}%.",
                         100 * latency.deviation / latency.mean));
  if (streams > 1)
    say('W',
        "* Multiple inference streams are used. Latencies may not be accurate since inferences may run in parallel.");
  say('I', on_gpu ? "A query's time is one call, copies of inputs and outputs included: they are not timed apart."
                  : "A query's time is one call on the CPU, where nothing is copied.");
  say('I', "");
}

void print_profile(const std::vector<LayerMilliseconds>& layers, int64_t runs) {
  double total = 0, mean = 0, median = 0;
  for (const LayerMilliseconds& layer : layers) total += layer.total, mean += layer.mean, median += layer.median;
  say('I', "");
  say('I', fmt::format("=== Profile ({} iterations ) ===", runs));
  say('I', "   Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer");
  const auto row = [&](double all, double average, double middle, const std::string& name) {
    say('I', fmt::format("{:11.2f}  {:11.4f}  {:11.4f}  {:8.1f}   {}", all, average, middle,
                         total > 0 ? 100 * all / total : 0, name));
  };
  for (const LayerMilliseconds& layer : layers) row(layer.total, layer.mean, layer.median, layer.name);
  row(total, mean, median, "Total");
  say('I', "");
}

void print_outputs(const NamedTensors& outputs) {
  say('I', "Output Tensors:");
  for (const auto& [name, tensor] : outputs) {
    say('I', fmt::format("{}: ({})", name, dims_text(tensor.dims())));
    say('I', elements(tensor));
  }
}

void print_layers(const Engine& engine) {
  say('I', "Layer Information:");
  for (const LayerInfo& layer : engine.layers())
    say('I', fmt::format("[{}] {}, {}", layer.op, layer.name, layer.tactic));
  for (const auto* infos : {&engine.inputs(), &engine.outputs()})
    for (const TensorInfo& info : *infos) say('I', "Binding: " + to_string(info));
}

nlohmann::json times_json(const Measured& measured) {
  nlohmann::json all = nlohmann::json::array();
  for (const Query& query : measured.queries)
    all.push_back({{"startEnqMs", query.begin},
                   {"endEnqMs", query.end},
                   {"startH2dMs", query.begin},
                   {"endH2dMs", query.begin},
                   {"startComputeMs", query.begin},
                   {"endComputeMs", query.end},
                   {"startD2hMs", query.end},
                   {"endD2hMs", query.end},
                   {"h2dMs", 0.0},
                   {"computeMs", query.latency()},
                   {"d2hMs", 0.0},
                   {"latencyMs", query.latency()}});
  return all;
}

nlohmann::json profile_json(const std::vector<LayerMilliseconds>& layers, int64_t runs) {
  nlohmann::json all = nlohmann::json::array({{{"count", runs}}});
  double total = 0;
  for (const LayerMilliseconds& layer : layers) total += layer.total;
  for (const LayerMilliseconds& layer : layers)
    all.push_back({{"name", layer.name},
                   {"timeMs", layer.total},
                   {"averageMs", layer.mean},
                   {"medianMs", layer.median},
                   {"percentage", total > 0 ? 100 * layer.total / total : 0}});
  return all;
}

nlohmann::json outputs_json(const NamedTensors& outputs) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [name, tensor] : outputs) {
    nlohmann::json values = nlohmann::json::array();
    if (tensor.dtype() == DType::string) {
      for (int64_t i = 0; i < tensor.size(); ++i) values.push_back(tensor.text(i));
    } else {
      const Tensor wide = tensor.converted(DType::f64);
      for (int64_t i = 0; i < wide.size(); ++i) values.push_back(wide.as<double>()[i]);
    }
    all.push_back({{"name", name}, {"dimensions", dims_text(tensor.dims())}, {"values", std::move(values)}});
  }
  return all;
}

// Of "name: f32[n, 3]", as layers are listed, with trtexec's words for the types that it has.
nlohmann::json tensor_json(const std::string& text) {
  static const std::map<std::string, std::string, std::less<>> formats{
      {"f32", "FP32"},  {"f16", "FP16"},  {"bf16", "BFloat16"}, {"i8", "Int8"},
      {"i32", "Int32"}, {"i64", "Int64"}, {"bool", "Bool"}};
  const size_t colon = text.rfind(": "), begin = colon == std::string::npos ? 0 : colon + 2;
  const size_t bracket = std::min(text.find('[', begin), text.size());
  nlohmann::json sizes = nlohmann::json::array();
  int depth = 0;  // of "max(a, b)"
  for (size_t at = bracket + 1, start = at; at < text.size(); ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth > 0 || (text[at] != ',' && text[at] != ']')) continue;
    const std::string size = text.substr(start, at - start);
    const bool is_number = !size.empty() && size.find_first_not_of("0123456789") == std::string::npos;
    if (!size.empty()) sizes.push_back(is_number ? std::stoll(size) : -1);
    start = at + 2;
  }
  const auto format = formats.find(text.substr(begin, bracket - begin));
  return {{"Name", text.substr(0, colon)},
          {"Location", "Device"},
          {"Dimensions", std::move(sizes)},
          {"Format/Datatype", format == formats.end() ? "N/A" : "Row major linear " + format->second}};
}

nlohmann::json layers_json(const Engine& engine) {
  const auto tensors = [](const std::vector<std::string>& texts) {
    nlohmann::json all = nlohmann::json::array();
    for (const std::string& text : texts) {
      all.push_back(tensor_json(text));
    }
    return all;
  };
  nlohmann::json layers = nlohmann::json::array();
  for (const LayerInfo& layer : engine.layers())
    layers.push_back({{"Name", layer.name},
                      {"LayerType", layer.op},
                      {"Inputs", tensors(layer.inputs)},
                      {"Outputs", tensors(layer.outputs)},
                      {"TacticValue", layer.tactic},
                      {"TacticName", layer.tactic},
                      {"Origin", fmt::format("{}", fmt::join(layer.sources, ", "))},
                      {"StreamId", 0},
                      {"Metadata", layer.description}});
  nlohmann::json bindings = nlohmann::json::array();
  for (const auto* infos : {&engine.inputs(), &engine.outputs()})
    for (const TensorInfo& info : *infos) bindings.push_back(info.name);
  return {{"Layers", std::move(layers)}, {"Bindings", std::move(bindings)}};
}

}  // namespace camshaft::tools::trtexec
