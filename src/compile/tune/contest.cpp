#include "compile/tune/contest.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include "base/cache_sizes.h"
#include "compile/plan/bound_plan.h"
#include "compile/tune/device_contest.h"

namespace camshaft {

namespace {

using Clock = std::chrono::steady_clock;

// A round in which the machine was busy with something else must not decide: the minimum of three rarely is one.
constexpr int least_rounds = 3, most_rounds = 24;
constexpr std::chrono::milliseconds enough_time{120};
// Bursts of other work last tens of milliseconds (one took three rounds of a candidate, and made it look five times
// slower): nobody leaves before that.
constexpr std::chrono::milliseconds burst{60};
// Who is this much slower by then does not catch up; nor who is that much slower in first runs as long as these, of
// which pages and tables are a small part.
constexpr double hopeless = 1.3, hopeless_at_first = 2;
// Bursts are a small part of such a run, too: once is enough beside the first. (Of a layer of 0.6 s ten candidates took
// 25 s.)
constexpr int64_t long_ns = 250'000'000;
// A run that takes so many times the processor time of the thread that waits for it was kept waiting by other programs.
// (Beside compilers on both cores, each of five runs of a 40 us layer took 7 ms, and a kernel a hundred times slower
// won.) Uneven parts of the threads explain a factor of two; before it sleeps, a thread spins for 50 us.
constexpr int64_t disturbed_factor = 3, spin_ns = 50'000;

size_t cache_bytes() {
  const auto known = static_cast<size_t>(std::max(level3_cache_bytes(), level2_cache_bytes()));
  return std::clamp(known, size_t{4} << 20, size_t{64} << 20);
}

size_t level2_bytes() {
  const int64_t known = level2_cache_bytes();
  return known > 0 ? static_cast<size_t>(known) : size_t{1} << 20;
}

size_t align(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/// A region with sizes and memory of its own.
class Stage {
 public:
  Stage(const RegionView& region, KernelShapes shapes) : shapes_(std::move(shapes)) { place(region); }

  const KernelShapes& shapes() const { return shapes_; }

  void run(Launch& launch, std::byte* workspace, ThreadPool& pool, const Cancellation& cancellation) {
    launch.run({inputs_, outputs_, workspace, pool, &cancellation});
  }

  /// Leaves the operands that a layer before would have written in the caches of the threads that wrote them, and the
  /// rest of the arena, which layers use again and again, a little further away.
  void warm(std::span<std::byte> workspace, ThreadPool& pool) {
    touch(workspace, pool);
    touch(memory_.bytes().subspan(warm_bytes_), pool);
    touch(memory_.bytes().first(warm_bytes_), pool);
  }

 private:
  static void touch(std::span<std::byte> bytes, ThreadPool& pool) {
    auto* lines = reinterpret_cast<volatile uint64_t*>(bytes.data());
    pool.parallel_for(static_cast<int64_t>(bytes.size() / 64), 1, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) lines[line * 8] = lines[line * 8];
    });
  }

  void place(const RegionView& region) {
    std::vector<size_t> offsets;
    size_t total = 0;
    const auto reserve = [&](const OperandShape& shape) {
      offsets.push_back(total);
      total += align(operand_bytes(shape.dtype, shape.dims));
    };
    for (size_t i = 0; i < shapes_.inputs.size(); ++i)
      if (region.node.inputs[i] != no_value && !region.graph.is_constant(region.node.inputs[i]))
        reserve(shapes_.inputs[i]);
    warm_bytes_ = total;
    for (const OperandShape& shape : shapes_.outputs) reserve(shape);
    memory_ = AlignedBuffer(std::max<size_t>(total, 64), "the operands of a layer that is measured");
    std::memset(memory_.data(), 0, memory_.size());
    size_t next = 0;
    for (size_t i = 0; i < shapes_.inputs.size(); ++i) {
      const ValueId id = region.node.inputs[i];
      if (id == no_value) {
        inputs_.push_back(nullptr);
      } else if (region.graph.is_constant(id)) {
        inputs_.push_back(region.graph.value(id).constant->data());
      } else {
        std::byte* at = memory_.data() + offsets[next++];
        if (const auto known = measured_operand(region, shapes_.inputs[i], i))
          std::memcpy(at, known->data(), known->bytes());
        else
          fill_operand(shapes_.inputs[i].dtype, at, operand_bytes(shapes_.inputs[i].dtype, shapes_.inputs[i].dims));
        inputs_.push_back(at);
      }
    }
    for (size_t o = 0; o < shapes_.outputs.size(); ++o) outputs_.push_back(memory_.data() + offsets[next++]);
  }

  KernelShapes shapes_;
  AlignedBuffer memory_;
  size_t warm_bytes_ = 0;  // the inputs come first
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
};

struct Runner {
  std::unique_ptr<Launch> launch;
  int rounds = 0;             // that nothing disturbed
  int64_t best_ns = -1;       // of those
  int64_t least_cpu_ns = -1;  // of all
  int64_t first_ns = -1;

  void record(int64_t ns, int64_t cpu_ns) {
    const auto keep_least = [](int64_t& least, int64_t value) { least = least < 0 ? value : std::min(least, value); };
    keep_least(least_cpu_ns, std::max<int64_t>(cpu_ns, 1));
    if (ns > disturbed_factor * (cpu_ns + spin_ns)) return;
    ++rounds;
    keep_least(best_ns, std::max<int64_t>(ns, 1));
  }
  int least_rounds() const { return first_ns > long_ns ? 1 : camshaft::least_rounds; }
  bool has_enough() const { return rounds >= least_rounds(); }
  // -1: never run.
  int64_t result() const { return rounds > 0 ? best_ns : least_cpu_ns > 0 ? least_cpu_ns : first_ns; }
};

int64_t thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

int64_t nanoseconds(Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

// By their first runs, where all of these are long.
void leave_out_hopeless(std::vector<size_t>& running, const std::vector<Runner>& runners) {
  int64_t least = -1;
  for (const size_t c : running) least = least < 0 ? runners[c].first_ns : std::min(least, runners[c].first_ns);
  if (least <= long_ns) return;
  std::erase_if(running, [&](size_t c) {
    return static_cast<double>(runners[c].first_ns) > hopeless_at_first * static_cast<double>(least);
  });
}

}  // namespace

std::string cache_class(const Backend& backend, const ModelBytes& model) {
  std::string text = model.weights <= level2_bytes()  ? "weights in L2"
                     : model.weights <= cache_bytes() ? "weights in L3"
                                                      : "weights beyond L3";
  const std::unique_ptr<DeviceQueue> queue = backend.make_queue();
  const std::unique_ptr<DeviceStopwatch> stopwatch = queue ? backend.make_stopwatch(*queue) : nullptr;
  if (stopwatch)
    text +=
        DeviceContest::walks(model, *stopwatch) ? ", model beyond the device's cache" : ", model in the device's cache";
  return text;
}

Contest::Contest(const Backend& backend, ThreadPool& pool, const ModelBytes& model, Cancellation cancellation)
    : backend_(backend), pool_(pool), model_(model), cancellation_(std::move(cancellation)) {}

Contest::~Contest() = default;

void Contest::walk() {
  if (walked_.size() == 0) {
    walked_ = AlignedBuffer(std::max<size_t>(std::min(model_.weights, cache_bytes()), 64) / 64 * 64,
                            "walking through the caches between measurements");
    std::memset(walked_.data(), 1, walked_.size());
  }
  const auto* lines = reinterpret_cast<const volatile uint64_t*>(walked_.data());
  pool_.parallel_for(static_cast<int64_t>(walked_.size() / 64), 1, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) static_cast<void>(lines[line * 8]);
  });
}

std::vector<int64_t> Contest::measure(const RegionView& region, const std::vector<const Tactic*>& candidates) {
  std::vector<Contestant> contestants;
  for (const Tactic* candidate : candidates)
    contestants.push_back(make_contestant(backend_, region, *candidate, pool_.size()));
  return measure(region, std::move(contestants));
}

std::vector<int64_t> Contest::measure(const RegionView& region, std::vector<Contestant> contestants) {
  const std::optional<KernelShapes> shapes = measured_shapes(region, pool_.size());
  if (!shapes) return {};
  const bool on_device = std::any_of(contestants.begin(), contestants.end(), [](const Contestant& c) {
    return c.launch && c.kernel->place() == Place::device;
  });
  if (!on_device) return measure_on_host(region, *shapes, contestants);
  if (!device_) device_ = std::make_unique<DeviceContest>(backend_, pool_, model_, cancellation_);
  return device_->measure(region, *shapes, contestants);
}

std::vector<int64_t> Contest::measure_on_host(const RegionView& region, const KernelShapes& shapes,
                                              std::span<Contestant> contestants) {
  std::vector<Runner> runners(contestants.size());
  size_t workspace_bytes = 64;
  for (size_t c = 0; c < contestants.size(); ++c) {
    runners[c].launch = std::move(contestants[c].launch);
    if (runners[c].launch) workspace_bytes = std::max(workspace_bytes, runners[c].launch->workspace_bytes());
  }
  if (workspace_bytes > most_measured_bytes) return {};
  std::optional<Stage> stage;
  try {
    stage.emplace(region, shapes);
  } catch (const Error&) {  // no memory for it
    return {};
  }
  AlignedBuffer workspace(workspace_bytes, "the workspace of a layer that is measured");

  std::vector<size_t> running;
  for (size_t c = 0; c < runners.size(); ++c) {
    if (!runners[c].launch) continue;
    try {
      const auto before = Clock::now();
      stage->run(*runners[c].launch, workspace.data(), pool_, cancellation_);  // pages, tables, code
      runners[c].first_ns = nanoseconds(Clock::now() - before);
      running.push_back(c);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::cancelled) throw;
    }
  }
  leave_out_hopeless(running, runners);
  const auto start = Clock::now();
  for (int round = 0; round < most_rounds && !running.empty(); ++round) {
    const bool enough = std::all_of(running.begin(), running.end(), [&](size_t c) { return runners[c].has_enough(); });
    if (enough && (running.size() == 1 || Clock::now() - start > enough_time)) break;
    for (const size_t c : running) {
      cancellation_.check("measuring tactics");
      walk();
      stage->warm(workspace.bytes(), pool_);
      const int64_t cpu_before = thread_cpu_ns();
      const auto before = Clock::now();
      stage->run(*runners[c].launch, workspace.data(), pool_, cancellation_);
      const auto elapsed = Clock::now() - before;
      runners[c].record(nanoseconds(elapsed), thread_cpu_ns() - cpu_before);
    }
    if (Clock::now() - start < burst) continue;
    int64_t least = -1;
    for (const size_t c : running)
      if (runners[c].has_enough() && (least < 0 || runners[c].best_ns < least)) least = runners[c].best_ns;
    std::erase_if(running, [&](size_t c) {
      return runners[c].has_enough() && static_cast<double>(runners[c].best_ns) > hopeless * static_cast<double>(least);
    });
  }
  std::vector<int64_t> results;
  for (const Runner& runner : runners) results.push_back(runner.result());
  return results;
}

}  // namespace camshaft
