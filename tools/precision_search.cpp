#include "tools/precision_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>

#include "tools/interrupt.h"

namespace camshaft::tools {

namespace {

using Outputs = std::vector<Tensor>;

/// See LayerSensitivity.
double error_of(const Tensor& got, const Tensor& exact) {
  if (got.size() != exact.size()) return 1;
  if (exact.dtype() != DType::f32) {
    return got == exact ? 0 : 1;
  }
  const auto *a = reinterpret_cast<const float*>(got.data()), *b = reinterpret_cast<const float*>(exact.data());
  double difference = 0, power = 0;
  for (int64_t i = 0; i < exact.size(); ++i) {
    if (!std::isfinite(b[i])) continue;
    const double d = static_cast<double>(a[i]) - b[i];
    difference += std::isfinite(d) ? d * d : std::numeric_limits<double>::infinity();
    power += static_cast<double>(b[i]) * b[i];
  }
  if (difference == 0) return 0;
  return power > 0 ? std::sqrt(difference / power) : 1;
}

class Searcher {
 public:
  Searcher(const PrecisionSearchOptions& options, const MetricScript& metric, const ScoreDrop& most, Progress& progress)
      : options_(options), metric_(metric), most_(most), progress_(progress), cancellation_(cancel_on_interrupt()) {}

  PrecisionSearch run() {
    PrecisionSearch found;
    progress_.update("in floating point", 0);
    const Engine in_float = build({}, false);
    batches_ = options_.batches(in_float.inputs());
    for (const NamedTensors& batch : batches_) exact_.push_back(outputs_of(in_float, batch));
    const double float_score = metric_.score(in_float);
    const double float_seconds = seconds_of(in_float);

    BuildReport report;
    const Engine all = build({}, true, &report);
    for (const LayerPlacement& layer : report.quantized_layers)
      if (layer.quantized) found.layers.push_back({layer.layer, 0});
    if (found.layers.empty())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("'{}' has no layer in {}, so that there is nothing to look for", options_.model,
                              options_.precision));
    const auto try_with = [&](size_t kept) {
      progress_.update(fmt::format("with {} of {} layers in floating point", kept, found.layers.size()), 0.9);
      std::vector<std::string> rules;
      for (size_t i = 0; i < kept; ++i) rules.push_back(found.layers[i].layer + ":fp32");
      const Engine engine = kept == 0 ? all : build(rules, true);
      points_[kept] = {kept, metric_.score(engine), seconds_of(engine)};
      return points_[kept].score >= most_.least(float_score);
    };
    points_[found.layers.size()] = {found.layers.size(), float_score, float_seconds};
    if (!try_with(0)) {
      sort_by_sensitivity(found.layers);
      size_t bad = 0, good = found.layers.size();
      while (good - bad > 1) {
        const size_t middle = bad + (good - bad) / 2;
        (try_with(middle) ? good : bad) = middle;
      }
      found.float_layers = good;
    }
    for (const auto& [kept, point] : points_) found.points.push_back(point);
    return found;
  }

 private:
  Engine build(const std::vector<std::string>& rules, bool quantized, BuildReport* report = nullptr) const {
    BuildOptions build = options_.build;
    build.set("verify", false).set("tuning", "heuristic").set(options_.precision, quantized).set_progress({});
    if (quantized) build.set("calibration", options_.calibration);
    for (const std::string& rule : rules) build.set("layer-precisions", rule);
    Builder builder(std::move(build));
    Engine engine = builder.build(options_.model);
    if (report != nullptr) *report = builder.report();
    return engine;
  }

  Context context_of(const Engine& engine) const {
    Context context = engine.create_context();
    context.set_cancellation(cancellation_);
    return context;
  }

  static void set_inputs(Context& context, const NamedTensors& batch) {
    for (const auto& [name, tensor] : batch) context.set_input(name, tensor);
  }

  Outputs outputs_of(const Engine& engine, const NamedTensors& batch) const {
    Context context = context_of(engine);
    set_inputs(context, batch);
    context.run();
    Outputs outputs;
    for (const TensorInfo& output : engine.outputs()) outputs.push_back(context.output(output.name).copy());
    return outputs;
  }

  double seconds_of(const Engine& engine) const {
    using Clock = std::chrono::steady_clock;
    constexpr double enough = 0.3;
    constexpr int most_runs = 30, least_runs = 3;
    Context context = context_of(engine);
    set_inputs(context, batches_.front());
    double least = std::numeric_limits<double>::infinity(), all = 0;
    for (int run = 0; run < most_runs && (run < least_runs || all < enough); ++run) {
      const auto start = Clock::now();
      context.run();
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      all += seconds;
      if (run > 0) least = std::min(least, seconds);  // the first one prepares
    }
    return least;
  }

  void sort_by_sensitivity(std::vector<LayerSensitivity>& layers) const {
    for (size_t l = 0; l < layers.size(); ++l) {
      progress_.update(fmt::format("layer {} of {} in {}", l + 1, layers.size(), options_.precision),
                       0.1 + 0.7 * static_cast<double>(l) / static_cast<double>(layers.size()));
      const Engine engine = build({"*:fp32", layers[l].layer + ":" + options_.precision}, true);
      double sum = 0;
      size_t count = 0;
      for (size_t b = 0; b < batches_.size(); ++b) {
        const Outputs got = outputs_of(engine, batches_[b]);
        for (size_t o = 0; o < got.size(); ++o, ++count) sum += error_of(got[o], exact_[b][o]);
      }
      layers[l].error = count == 0 ? 0 : sum / static_cast<double>(count);
    }
    std::stable_sort(layers.begin(), layers.end(),
                     [](const LayerSensitivity& a, const LayerSensitivity& b) { return a.error > b.error; });
  }

  const PrecisionSearchOptions& options_;
  const MetricScript& metric_;
  const ScoreDrop& most_;
  Progress& progress_;
  const Cancellation cancellation_;
  std::vector<NamedTensors> batches_;
  std::vector<Outputs> exact_;  // of each batch
  std::map<size_t, PrecisionPoint> points_;
};

}  // namespace

const PrecisionPoint& PrecisionSearch::chosen() const {
  return *std::find_if(points.begin(), points.end(),
                       [&](const PrecisionPoint& point) { return point.float_layers == float_layers; });
}

PrecisionSearch search_precisions(const PrecisionSearchOptions& options, const MetricScript& metric,
                                  const ScoreDrop& most, Progress& progress) {
  return Searcher(options, metric, most, progress).run();
}

nlohmann::json to_json(const PrecisionSearch& search) {
  nlohmann::json points = nlohmann::json::array(), layers = nlohmann::json::array();
  for (const PrecisionPoint& point : search.points)
    points.push_back({{"float_layers", point.float_layers}, {"score", point.score}, {"seconds", point.seconds}});
  for (const LayerSensitivity& layer : search.layers)
    layers.push_back({{"layer", layer.layer}, {"error", layer.error}});
  return {{"float_layers", search.float_layers}, {"points", points}, {"sensitivity", layers}};
}

}  // namespace camshaft::tools
