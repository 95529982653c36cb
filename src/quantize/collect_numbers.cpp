#include "quantize/collect_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/error.h"
#include "base/thread_pool.h"
#include "base/workers.h"
#include "runtime/context.h"

namespace camshaft {

namespace {

class Collector {
 public:
  Collector(const Engine& engine, const std::vector<WatchedValue>& watched, const CollectOptions& options)
      : engine_(engine),
        watched_(watched),
        options_(options),
        context_(engine.create_context({options.threads})),
        // For inputs, between runs; its threads are those of the runs.
        pool_(Workers::of_process(), options.threads > 0 ? std::min(options.threads, Workers::of_process()->limit())
                                                         : Workers::of_process()->limit()) {
    numbers_.histograms.resize(watched.size());
    numbers_.channels.resize(watched.size());
    numbers_.powers.resize(watched.size());
    for (size_t w = 0; w < options.channels.size(); ++w)
      numbers_.channels[w] = ChannelMagnitudes(options.channels[w].channels);
    context_.rehearse();  // of one of several ranks
    context_.set_cancellation(options.cancellation);
    for (size_t w = 0; w < watched.size(); ++w)
      if (watched[w].input < 0)
        context_.set_parallel_tap(watched[w].value,
                                  [this, w](const TensorView& view, ThreadPool& pool) { add(w, view, pool); });
  }

  CollectedNumbers run(const NextBatch& next) {
    Batch batch;
    for (;;) {
      options_.cancellation.check("calibrating");
      batch.clear();
      const auto start = Clock::now();
      const bool is_there = next(engine_.inputs(), batch);
      const auto given = Clock::now();
      numbers_.data_seconds += seconds(start, given);
      if (!is_there) return std::move(numbers_);
      run_batch(batch);
      numbers_.run_seconds += seconds(given, Clock::now());
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds(Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
  }

  void run_batch(const Batch& batch) {
    ++numbers_.batches;
    try {
      set_inputs(batch);
      const TensorView& first = batch.empty() ? TensorView() : find(batch, engine_.inputs()[0].name);
      samples_ = first.dims.empty() ? 1 : first.dims[0];
      context_.run();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::cancelled) throw;
      throw Error(error.code(), fmt::format("batch {} of the calibration data: {}", numbers_.batches, error.what()));
    }
    numbers_.samples += samples_;
    ThreadPool::Session session(pool_);
    for (size_t w = 0; w < watched_.size(); ++w)
      if (watched_[w].input >= 0)
        add(w, find(batch, engine_.inputs()[static_cast<size_t>(watched_[w].input)].name), pool_);
  }

  static const TensorView& find(const Batch& batch, const std::string& name) {
    return std::find_if(batch.begin(), batch.end(), [&](const auto& item) { return item.first == name; })->second;
  }

  void set_inputs(const Batch& batch) {
    std::set<std::string> given;
    for (const auto& [name, view] : batch) {
      if (!given.insert(name).second)
        throw Error(ErrorCode::invalid_argument, fmt::format("input '{}' is given twice", name));
      const auto& inputs = engine_.inputs();
      const auto info =
          std::find_if(inputs.begin(), inputs.end(), [&, &n = name](const TensorInfo& i) { return i.name == n; });
      if (info == inputs.end())
        throw Error(ErrorCode::invalid_argument, fmt::format("the model has no input '{}'", name));
      if (info->dtype != view.dtype)
        throw Error(ErrorCode::invalid_argument, fmt::format("input '{}' is {}, but {} is given", name,
                                                             to_string(info->dtype), to_string(view.dtype)));
      context_.set_input(name, view);
    }
    for (const TensorInfo& info : engine_.inputs())
      if (!given.contains(info.name))
        throw Error(ErrorCode::invalid_argument, fmt::format("input '{}' ({}) is not given", info.name, info.type));
  }

  void add(size_t w, const TensorView& view, ThreadPool& pool) {
    if (view.dtype != DType::f32)
      throw Error(ErrorCode::internal, fmt::format("tensor '{}' is {} in the engine, which has no ranges of it",
                                                   watched_[w].value, to_string(view.dtype)));
    const auto* x = static_cast<const float*>(view.data);
    const int64_t count = element_count(view.dims);
    add_channels(w, x, view.dims, pool);
    // Samples lie one after another where the first axis is theirs.
    const int64_t parts = samples_ > 1 && !view.dims.empty() && view.dims[0] % samples_ == 0 ? samples_ : 1;
    for (int64_t p = 0; p < parts; ++p) numbers_.powers[w].add(x + p * (count / parts), count / parts, pool);
    Histogram& histogram = numbers_.histograms[w];
    if (options_.extremes_only) return histogram.add_extremes(x, count, pool);
    histogram.add(x, count, pool, counter_);
  }

  void add_channels(size_t w, const float* x, const Dims& dims, ThreadPool& pool) {
    if (numbers_.channels[w].largest().empty()) return;
    const ChannelAxis& channels = options_.channels[w];
    const auto axis = dims.begin() + channels.axis;
    numbers_.channels[w].add(x, element_count({dims.begin(), axis}), element_count({axis + 1, dims.end()}), pool);
  }

  const Engine& engine_;
  const std::vector<WatchedValue>& watched_;
  const CollectOptions& options_;
  Context context_;
  ThreadPool pool_;
  cpu::MagnitudeCounter counter_;
  int64_t samples_ = 0;  // of the batch
  CollectedNumbers numbers_;
};

}  // namespace

CollectedNumbers collect_numbers(const Engine& engine, const std::vector<WatchedValue>& watched, const NextBatch& next,
                                 const CollectOptions& options) {
  return Collector(engine, watched, options).run(next);
}

}  // namespace camshaft
