#include "fuzz/limits.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

#include "base/error.h"
#include "base/memory_limit.h"
#include "builder/sample_inputs.h"
#include "runtime/context.h"
#include "runtime/engine_impl.h"

namespace camshaft::fuzz {
namespace {

constexpr size_t largest_tensor = 4 << 20;
constexpr int64_t most_input_elements = 1 << 14;

class Watchdog {
 public:
  Watchdog() {
    std::thread([this] { watch(); }).detach();
  }

  Cancellation start(double seconds) {
    const std::lock_guard lock(mutex_);
    flag_ = Cancellation();
    deadline_ = std::chrono::steady_clock::now() +
                std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
    return flag_;
  }

 private:
  [[noreturn]] void watch() {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const std::lock_guard lock(mutex_);
      if (std::chrono::steady_clock::now() >= deadline_) flag_.cancel();
    }
  }

  std::mutex mutex_;
  Cancellation flag_;
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace

void set_limits() {
  set_largest_buffer(largest_tensor);
}

Cancellation cancelled_after(double seconds) {
  static auto& watchdog = *new Watchdog;  // its thread outlives main()
  return watchdog.start(seconds);
}

void use(const Engine& engine, uint64_t seed) {
  engine.layers();
  engine.tensor_names();
  engine.memory();
  const Graph& graph = engine.impl()->graph;
  const std::vector<Dims> shapes = choose_input_shapes(graph, {}, engine.impl()->optimum, 3);
  int64_t elements = 0;
  for (const Dims& dims : shapes) {
    const int64_t count = element_count(dims);
    if (count > most_input_elements - elements) return;
    elements += count;
  }
  const std::vector<Tensor> inputs = sample_inputs(graph, shapes, seed);
  Context context = engine.create_context({1});
  context.set_cancellation(cancelled_after(1));
  for (size_t i = 0; i < inputs.size(); ++i)
    context.set_input(engine.inputs()[i].name, inputs[i].dims(), inputs[i].data());
  context.run();
  for (const TensorInfo& info : engine.outputs()) context.output(info.name);
}

void judge(const std::exception& e) {
  if (dynamic_cast<const std::bad_alloc*>(&e)) return;
  const auto* error = dynamic_cast<const Error*>(&e);
  if (error && error->code() != ErrorCode::internal) return;
  std::fprintf(stderr, "%s: %s\n", error ? "internal error" : "exception", e.what());
  std::abort();
}

}  // namespace camshaft::fuzz
