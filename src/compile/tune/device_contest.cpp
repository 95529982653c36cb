#include "compile/tune/device_contest.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "compile/plan/bound_plan.h"

namespace camshaft {

namespace {

using Clock = std::chrono::steady_clock;

// Nothing disturbs a device that others leave alone: few rounds do.
constexpr int least_device_rounds = 4, most_device_rounds = 12;
constexpr std::chrono::milliseconds enough_device_time{40};
// Who is this much slower after two rounds does not catch up.
constexpr double hopeless_on_device = 1.3;
// Launches in one recording: the clock counts in half microseconds, and long kernels need no more than a few.
constexpr double recorded_seconds = 2e-4;
constexpr int least_repeats = 3, most_repeats = 32;
// In which an idle device raises its clock.
constexpr std::chrono::milliseconds warm_up_time{150};

size_t align_on_device(size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

size_t bytes_of(const OperandShape& shape) {
  return operand_bytes(shape.dtype, shape.dims);
}

struct DeviceRunner {
  std::unique_ptr<Launch> launch;
  std::unique_ptr<DeviceRecording> recording;
  int repeats = 0;
  double least_total = -1, least_around = -1;  // seconds of the recording, and of what it does around the kernels
  int rounds = 0;

  double seconds() const { return std::max(least_total - least_around, 1e-9) / repeats; }
};

void keep_least(double& least, double seconds) {
  least = least < 0 ? seconds : std::min(least, seconds);
}

}  // namespace

/// A region with operands in the device's memory.
class DeviceContest::Stage {
 public:
  Stage(DeviceContest& contest, const RegionView& region, const KernelShapes& shapes,
        std::span<const Contestant> contestants, size_t workspace_bytes)
      : contest_(contest) {
    DeviceQueue& queue = *contest.queue_;
    size_t total = align_on_device(workspace_bytes);
    for (const OperandShape& shape : shapes.outputs) total += align_on_device(bytes_of(shape));
    for (const OperandShape& shape : shapes.inputs) total += align_on_device(bytes_of(shape));
    memory_ = queue.allocate(std::max<size_t>(total, 256), "the operands of a layer that is measured");
    std::byte* at = memory_.get();
    for (size_t i = 0; i < shapes.inputs.size(); ++i) {
      const ValueId id = region.node.inputs[i];
      if (id == no_value) {
        inputs_.push_back(nullptr);
        continue;
      }
      inputs_.push_back(at);
      if (!region.graph.is_constant(id)) {
        written_.push_back({at, bytes_of(shapes.inputs[i])});
        if (const auto known = measured_operand(region, shapes.inputs[i], i))
          queue.copy_to_device(at, known->span());
        else
          fill(shapes.inputs[i], at);
      } else if (std::any_of(contestants.begin(), contestants.end(),
                             [&](const Contestant& c) { return c.kernel && c.kernel->reads_input(i); })) {
        const Tensor* constant = region.constant(i);
        if (!constant) throw Error(ErrorCode::unsupported, "a constant that is stored in packed form only");
        queue.copy_to_device(at, constant->span());
      }
      at += align_on_device(bytes_of(shapes.inputs[i]));
    }
    for (const OperandShape& shape : shapes.outputs) {
      outputs_.push_back(at);
      at += align_on_device(bytes_of(shape));
    }
    workspace_ = at;
    queue.synchronize();
  }

  void run(Launch& launch) {
    launch.run({inputs_, outputs_, workspace_, contest_.pool_, &contest_.cancellation_, contest_.queue_.get()});
  }

  /// What a run through the rest of the model leaves in the cache.
  void leave_behind() {
    if (contest_.walked_bytes_ == 0) return;
    contest_.stopwatch_->touch(contest_.walked_.get(), contest_.walked_bytes_, false);
    for (const auto& [memory, bytes] : written_) contest_.stopwatch_->touch(memory, bytes, true);
  }

  /// `launch` so many times; null: only what is around it.
  std::unique_ptr<DeviceRecording> record(Launch* launch, int repeats) {
    DeviceQueue& queue = *contest_.queue_;
    queue.put_into_recording([&] {
      for (int r = 0; r < repeats; ++r) {
        leave_behind();
        if (launch) run(*launch);
      }
    });
    return queue.finish_recording();
  }

  double time(DeviceRecording& recording) const {
    contest_.stopwatch_->start();
    recording.replay();
    contest_.stopwatch_->stop();
    return contest_.stopwatch_->seconds();
  }

  double time(Launch& launch) {
    contest_.stopwatch_->start();
    run(launch);
    contest_.stopwatch_->stop();
    return contest_.stopwatch_->seconds();
  }

 private:
  void fill(const OperandShape& shape, std::byte* at) const {
    constexpr size_t most_at_once = 1 << 20;
    const size_t bytes = bytes_of(shape);
    std::vector<std::byte> block(std::min(bytes, most_at_once));
    fill_operand(shape.dtype, block.data(), block.size());
    for (size_t done = 0; done < bytes; done += block.size())
      contest_.queue_->copy_to_device(at + done, std::span(block).first(std::min(block.size(), bytes - done)));
  }

  DeviceContest& contest_;
  std::shared_ptr<std::byte> memory_;
  std::vector<std::pair<std::byte*, size_t>> written_;  // by the layers before
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::byte* workspace_ = nullptr;
};

// With half of the cache to itself, a model finds its weights there again.
bool DeviceContest::walks(const ModelBytes& model, const DeviceStopwatch& stopwatch) {
  return model.weights + model.activations > stopwatch.cache_bytes() / 2;
}

DeviceContest::DeviceContest(const Backend& backend, ThreadPool& pool, const ModelBytes& model,
                             Cancellation cancellation)
    : backend_(backend), pool_(pool), cancellation_(std::move(cancellation)), queue_(backend.make_queue()) {
  if (queue_) stopwatch_ = backend_.make_stopwatch(*queue_);
  if (!stopwatch_) return;
  if (walks(model, *stopwatch_)) {
    walked_bytes_ = std::min(model.weights + model.activations, stopwatch_->cache_bytes()) / 256 * 256;
    walked_ = queue_->allocate(walked_bytes_, "walking through the cache between measurements");
  }
  warm_up();
}

DeviceContest::~DeviceContest() = default;

void DeviceContest::warm_up() {
  const size_t bytes = std::max<size_t>(walked_bytes_, size_t{16} << 20);
  const std::shared_ptr<std::byte> memory = queue_->allocate(bytes, "warming up");
  constexpr int turns = 64;
  for (const auto start = Clock::now(); Clock::now() - start < warm_up_time;) {
    for (int turn = 0; turn < turns; ++turn) stopwatch_->touch(memory.get(), bytes, true);
    queue_->synchronize();
  }
}

std::vector<int64_t> DeviceContest::measure(const RegionView& region, const KernelShapes& shapes,
                                            std::span<Contestant> contestants) {
  if (!stopwatch_) return {};
  std::vector<DeviceRunner> runners(contestants.size());
  size_t workspace_bytes = 0;
  for (size_t c = 0; c < contestants.size(); ++c) {
    if (!contestants[c].launch || contestants[c].kernel->place() != Place::device) continue;
    runners[c].launch = std::move(contestants[c].launch);
    workspace_bytes = std::max(workspace_bytes, runners[c].launch->workspace_bytes());
  }
  std::optional<Stage> stage;
  try {
    stage.emplace(*this, region, shapes, contestants, workspace_bytes);
  } catch (const Error&) {  // no memory for it
    return {};
  }

  std::vector<size_t> running;
  // What is around the kernels, by how often they are repeated.
  std::vector<std::pair<int, std::unique_ptr<DeviceRecording>>> around;
  const auto around_of = [&](int repeats) -> DeviceRecording& {
    for (auto& [known, recording] : around)
      if (known == repeats) return *recording;
    around.emplace_back(repeats, stage->record(nullptr, repeats));
    return *around.back().second;
  };
  for (size_t c = 0; c < runners.size(); ++c) {
    DeviceRunner& runner = runners[c];
    if (!runner.launch) continue;
    try {
      stage->run(*runner.launch);  // brings its code
      queue_->synchronize();
      const double once = stage->time(*runner.launch);
      if (!contestants[c].kernel->can_be_recorded()) {  // as its runs are: with what the host takes to launch it
        runner.repeats = 1;
        running.push_back(c);
        continue;
      }
      // Powers of two, so that those of about the same speed share what is around them.
      for (runner.repeats = least_repeats; runner.repeats < most_repeats && runner.repeats * once < recorded_seconds;)
        runner.repeats *= 2;
      runner.repeats = std::min(runner.repeats, most_repeats);
      runner.recording = stage->record(runner.launch.get(), runner.repeats);
      running.push_back(c);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::cancelled) throw;
    }
  }
  const auto start = Clock::now();
  for (int round = 0; round < most_device_rounds && !running.empty(); ++round) {
    if (round >= least_device_rounds && (running.size() == 1 || Clock::now() - start > enough_device_time)) break;
    for (const size_t c : running) {
      cancellation_.check("measuring tactics");
      DeviceRunner& runner = runners[c];
      if (!runner.recording) stage->leave_behind();
      keep_least(runner.least_total, runner.recording ? stage->time(*runner.recording) : stage->time(*runner.launch));
      if (walked_bytes_ == 0 || !runner.recording) {
        runner.least_around = 0;
      } else {
        keep_least(runner.least_around, stage->time(around_of(runner.repeats)));
      }
      ++runner.rounds;
    }
    if (round == 0) continue;
    double least = -1;
    for (const size_t c : running) keep_least(least, runners[c].seconds());
    std::erase_if(running, [&](size_t c) { return runners[c].seconds() > hopeless_on_device * least; });
  }
  std::vector<int64_t> results;
  for (const DeviceRunner& runner : runners)
    results.push_back(runner.rounds == 0 ? -1
                                         : std::max<int64_t>(1, static_cast<int64_t>(1e9 * runner.seconds() + 0.5)));
  return results;
}

}  // namespace camshaft
