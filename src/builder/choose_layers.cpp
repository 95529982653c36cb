#include "builder/choose_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "builder/compare_layers.h"
#include "builder/measure_engines.h"

namespace camshaft {

namespace {

std::string_view name_of(LayerPrecision precision) {
  return EnumNames<LayerPrecision>::values[static_cast<size_t>(precision)];
}

bool has_quantized(const OptimizedModel& model) {
  return std::any_of(model.quantized_layers.begin(), model.quantized_layers.end(),
                     [](const LayerPlacement& layer) { return layer.quantized; });
}

/// Of one type of 8 bits.
struct Choice {
  OptimizedModel model;
  double time = 1;  ///< of a run, as a part of one in floating point
};

Choice fastest_with(OptimizedModel low, const LayerContest& contest, LayerPrecision precision) {
  OptimizedModel high = contest.optimizer.run(contest.model, std::nullopt, {});
  const Engine high_engine = contest.compile(high), low_engine = contest.compile(low);
  std::vector<const Engine*> engines{&high_engine, &low_engine};
  const auto measured = [&] {
    return measure_engines(engines, contest.inputs, contest.threads, contest.seconds / 2, contest.cancellation);
  };
  std::vector<EngineTimes> times = measured();
  compare_layers(times[0].layers, times[1].layers, low.quantized_layers);
  KeptLayers slower = slower_layers(low.quantized_layers);
  const auto is_asked = [&](const LayerPlacement& layer) {
    return contest.rules.of(layer.sources) == precision;
  };
  for (const LayerPlacement& layer : low.quantized_layers)
    if (is_asked(layer)) slower.erase(layer.layer);
  if (!slower.empty()) {
    OptimizedModel mixed = contest.optimizer.run(contest.model, precision, slower);
    const Engine mixed_engine = contest.compile(mixed);
    engines.push_back(&mixed_engine);
    times = measured();
    compare_layers(times[0].layers, times[2].layers, mixed.quantized_layers);
    if (has_quantized(mixed) && times[2].seconds < std::min(times[0].seconds, times[1].seconds))
      return {std::move(mixed), times[2].seconds / times[0].seconds};
  }
  const bool may_stay = std::none_of(low.quantized_layers.begin(), low.quantized_layers.end(),
                                     [&](const LayerPlacement& layer) { return layer.quantized && is_asked(layer); });
  if (!may_stay || times[1].seconds <= times[0].seconds)
    return {std::move(low), times[1].seconds / times[0].seconds};
  constexpr double milli = 1e3;
  high.quantized_layers = std::move(low.quantized_layers);
  for (LayerPlacement& layer : high.quantized_layers)
    if (layer.quantized) {
      layer.quantized = false;
      layer.reason = fmt::format("the engine is slower with {}: {:.3f} ms, not {:.3f}", name_of(precision),
                                 times[1].seconds * milli, times[0].seconds * milli);
    }
  return {std::move(high), 1};
}

}  // namespace

OptimizedModel choose_layers(LayerContest contest) {
  std::optional<Choice> best;
  for (const LayerPrecision precision : contest.optimizer.low_precisions()) {
    OptimizedModel low = contest.optimizer.run(contest.model, precision, {});
    if (!has_quantized(low)) {
      if (!best) best = Choice{std::move(low)};
      continue;
    }
    try {
      Choice choice = fastest_with(low, contest, precision);
      if (!best || choice.time < best->time) best = std::move(choice);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::invalid_argument && e.code() != ErrorCode::invalid_model) throw;
      log_warning(
          fmt::format("{} was not measured beside floating point, as the model does not run on made-up inputs "
                      "(--inputs gives others): {}",
                      name_of(precision), e.what()));
      return low;
    }
  }
  return std::move(best->model);
}

}  // namespace camshaft
