#include "tools/trtexec/measure.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "tools/interrupt.h"

namespace camshaft::tools::trtexec {

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

double milliseconds_since(Clock::time_point start) {
  return Milliseconds(Clock::now() - start).count();
}

// Of the system's clock: waiting by the steady one needs a newer C library than the command does.
void wait_for(double milliseconds) {
  if (milliseconds > 0) std::this_thread::sleep_for(Milliseconds(milliseconds));
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Streams::Streams(const Engine& engine, const std::vector<Tensor>& inputs, int count, bool data_transfers) {
  const bool stays = !data_transfers && !engine.device().is_host();
  for (const Tensor& input : inputs)
    on_device_.push_back(stays && !holds_objects(input.dtype()) ? input.copy(to_string(engine.device())) : input);
  for (int i = 0; i < count; ++i) {
    contexts_.push_back(engine.create_context());
    Context& context = contexts_.back();
    context.set_cancellation(cancel_on_interrupt());
    for (size_t k = 0; k < on_device_.size(); ++k) context.set_input(engine.inputs()[k].name, on_device_[k]);
    for (const TensorInfo& output : engine.outputs())
      if (stays && !holds_objects(output.dtype)) context.bind_output(output.name, nullptr, 0, engine.device());
  }
}

Measured Streams::measure(const InferenceSettings& settings) {
  Measured measured;
  std::mutex mutex;
  std::exception_ptr failure;
  Clock::time_point start;
  std::barrier begin(static_cast<ptrdiff_t>(contexts_.size()), [&]() noexcept { start = Clock::now(); });
  const auto stream = [&](Context& context) {
    std::vector<Query> queries;
    int64_t warmup = 0;
    std::exception_ptr thrown;
    const auto warm = Clock::now();
    try {
      do context.run(), ++warmup;
      while (milliseconds_since(warm) < settings.warmup_ms);
    } catch (...) {
      thrown = std::current_exception();
    }
    const double warmed = milliseconds_since(warm);
    begin.arrive_and_wait();
    try {
      const auto goes_on = [&] {
        return settings.duration_s < 0 || static_cast<int64_t>(queries.size()) < settings.iterations ||
               milliseconds_since(start) < settings.duration_s * 1e3;
      };
      while (!thrown && goes_on()) {
        wait_for(settings.sleep_ms);
        const double from = milliseconds_since(start);
        context.run();
        queries.push_back({from, milliseconds_since(start)});
        wait_for(settings.idle_ms);
      }
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    if (thrown && !failure) failure = thrown;
    measured.queries.insert(measured.queries.end(), queries.begin(), queries.end());
    measured.seconds = std::max(measured.seconds, milliseconds_since(start) * 1e-3);
    measured.warmup_queries += warmup;
    measured.warmup_ms = std::max(measured.warmup_ms, warmed);
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < contexts_.size(); ++i) threads.emplace_back(stream, std::ref(contexts_[i]));
  stream(contexts_.front());
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  std::ranges::sort(measured.queries, {}, &Query::end);
  return measured;
}

std::vector<LayerMilliseconds> profile_layers(Context& context, int64_t runs) {
  Profiler profiler;
  context.set_profiler(&profiler);
  std::vector<LayerMilliseconds> layers;
  std::vector<std::vector<double>> times;
  for (int64_t run = 0; run < runs; ++run) {
    profiler.reset();
    context.run();
    const std::vector<LayerTime> measured = profiler.layers();
    layers.resize(measured.size());
    times.resize(measured.size());
    for (size_t i = 0; i < measured.size(); ++i) {
      layers[i].name = measured[i].name;
      layers[i].total += measured[i].seconds * 1e3;
      times[i].push_back(measured[i].seconds * 1e3);
    }
  }
  context.set_profiler(nullptr);
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i].mean = layers[i].total / static_cast<double>(runs);
    layers[i].median = median_of(times[i]);
  }
  return layers;
}

}  // namespace camshaft::tools::trtexec
