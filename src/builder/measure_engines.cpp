#include "builder/measure_engines.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/seconds_since.h"
#include "runtime/context.h"
#include "runtime/tensor_view.h"

namespace camshaft {

namespace {

constexpr int most_rounds = 15;
// The first rounds find caches and pages cold.
constexpr int least_rounds = 3;

using Clock = std::chrono::steady_clock;

void take_least(std::vector<LayerTime>& least, const std::vector<LayerTime>& layers) {
  if (least.size() != layers.size()) {
    least = layers;
    return;
  }
  for (size_t i = 0; i < least.size(); ++i) least[i].seconds = std::min(least[i].seconds, layers[i].seconds);
}

}  // namespace

std::vector<EngineTimes> measure_engines(const std::vector<const Engine*>& engines, const std::vector<Tensor>& inputs,
                                         int threads, double seconds, const Cancellation& cancellation) {
  std::vector<Context> contexts;
  for (const Engine* engine : engines) {
    contexts.push_back(engine->create_context({threads}));
    contexts.back().set_cancellation(cancellation);
    contexts.back().rehearse();
    for (size_t i = 0; i < inputs.size(); ++i) contexts.back().set_input(engine->inputs()[i].name, view_of(inputs[i]));
    contexts.back().run();  // what the first one prepares is not measured
  }
  std::vector<EngineTimes> times(engines.size());
  for (EngineTimes& t : times) t.seconds = std::numeric_limits<double>::infinity();
  const Clock::time_point start = Clock::now();
  for (int round = 0; round < most_rounds && (round < least_rounds || seconds_since(start) < seconds); ++round)
    for (size_t e = 0; e < engines.size(); ++e) {
      cancellation.check("measuring precisions");
      const Clock::time_point begin = Clock::now();
      contexts[e].run();
      times[e].seconds = std::min(times[e].seconds, seconds_since(begin));
      Profiler profiler;
      contexts[e].set_profiler(&profiler);
      contexts[e].run();
      contexts[e].set_profiler(nullptr);
      take_least(times[e].layers, profiler.layers());
    }
  return times;
}

}  // namespace camshaft
