#include "runtime/executor.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/nvtx.h"
#include "base/out_of_memory.h"
#include "base/seconds_since.h"
#include "base/work_scope.h"
#include "compile/layer_name.h"
#include "reference/evaluate.h"
#include "runtime/tensor_view.h"

namespace camshaft {

namespace {

// What a context keeps at most of memory for tensors whose sizes only running tells.
constexpr size_t most_dynamic_room = size_t{512} << 20;

// What a profiler shows for a layer.
std::string range_name(const PlanStep& step) {
  return fmt::format("{} [{}]", step.sources.empty() ? step.name : fmt::format("{}", fmt::join(step.sources, ", ")),
                     step.tactic.empty() ? step.op : step.tactic);
}

// The turn of a run among those whose weights come in; none where they are all there.
class WeightTurn {
 public:
  WeightTurn(std::optional<WeightStream::Run>& run, WeightStream* stream, const Cancellation& cancellation,
             DeviceQueue* queue)
      : run_(run) {
    if (stream) run_.emplace(*stream, cancellation, queue);
  }
  ~WeightTurn() { run_.reset(); }
  WeightTurn(const WeightTurn&) = delete;
  WeightTurn& operator=(const WeightTurn&) = delete;

 private:
  std::optional<WeightStream::Run>& run_;
};

}  // namespace

Executor::Executor(const Plan& plan, std::shared_ptr<Workers> workers, int threads,
                   std::vector<std::unique_ptr<DeviceQueue>> queues, ArenaPool* arenas)
    : plan_(&plan),
      pool_(std::move(workers), threads),
      arenas_(arenas),
      transfers_(plan),
      left_out_(plan.steps.size()),
      own_inputs_(plan.inputs.size()),
      own_outputs_(plan.outputs.size()),
      staged_(plan.inputs.size()),
      pointers_(plan.values.size()),
      dynamic_(plan.values.size()),
      results_(plan.outputs.size()) {
  for (std::unique_ptr<DeviceQueue>& queue : queues) {
    OnGpu& gpu = gpus_[queue->device()];
    if (queues.size() > 1) gpu.event = queue->make_event();
    gpu.queue = std::move(queue);
    if (!main_) main_ = &gpu;
  }
}

Executor::~Executor() {
  try {
    wait_for_runs();
  } catch (const Error&) {  // nobody asks any more
  }
}

void Executor::take(const Plan& plan, WeightStream* stream) {
  if (plan.values.size() != plan_->values.size() || plan.steps.size() != plan_->steps.size())
    throw Error(ErrorCode::internal, "a plan with other weights has other steps");
  plan_ = &plan;
  stream_ = stream;
}

void Executor::wait_for_runs() {
  try {
    for (auto& [id, gpu] : gpus_) {
      gpu.is_busy = false;
      gpu.queue->wait_for_runs();
    }
    may_write_host_ = false;
  } catch (...) {
    ++failures_;
    throw;
  }
}

void Executor::wait_for_previous() {
  if (main_) main_->queue->wait_for_marked();
}

void Executor::copy(std::byte* to, DeviceId to_device, std::span<const std::byte> from, DeviceId from_device) {
  if (from.empty()) return;
  if (to_device.is_host() && from_device.is_host()) {
    wait_for_runs();
    std::memmove(to, from.data(), from.size());
    return;
  }
  DeviceQueue& queue = *main_->queue;
  queue.start_run(std::nullopt);
  may_write_host_ |= to_device.is_host();
  const bool is_small = from.size() <= most_small_bytes && queue.most_small_copies() > 0;
  try {
    // Of three of them between the kernels of a decoder's step, each took 2 us longer by the device's copying part.
    if (is_small && queue.is_reached(to) && queue.is_reached(from.data())) {
      const SmallCopy copy = {to, from.data(), from.size()};
      queue.copy_small({&copy, 1});
    } else if (to_device.is_host()) {
      queue.copy_to_host({to, from.size()}, from.data());
    } else if (from_device.is_host()) {
      queue.copy_to_device(to, from);
    } else {
      queue.copy_from(to, from, queue);
    }
  } catch (...) {
    queue.finish_run();
    throw;
  }
  queue.finish_run();
}

void Executor::order(OnGpu& later, OnGpu& earlier) {
  earlier.queue->record(*earlier.event);
  later.queue->wait_for(*earlier.event);
}

void Executor::start_run(std::optional<void*> stream) {
  for (auto& [id, gpu] : gpus_) gpu.queue->start_run(&gpu == main_ ? stream : std::nullopt);
  for (auto& [id, gpu] : gpus_)
    if (&gpu != main_) order(gpu, *main_);
}

void Executor::finish_run() {
  for (auto& [id, gpu] : gpus_)
    if (&gpu != main_) order(*main_, gpu);
  for (auto& [id, gpu] : gpus_) gpu.queue->finish_run();
}

void Executor::run(const BoundPlan& bound, KeptValues& kept, Recordings& recordings, const CallerMemory& memory,
                   const RunPlace& place) {
  const std::optional<void*> stream = place.stream;
  const NvtxRange range([] { return "run"; });
  const WorkScope scope(cancellation);
  if (!main_) return run_steps(bound, kept, recordings, memory);
  waits_ = place.waits;
  may_write_host_ |= !waits_;
  is_in_callers_recording_ = stream && main_->queue->is_recorded(*stream);
  if (is_in_callers_recording_ && gpus_.size() > 1)
    throw Error(ErrorCode::invalid_argument, "a run on several GPUs cannot be recorded into a CUDA graph");
  if (is_in_callers_recording_ && stream_)
    throw Error(
        ErrorCode::invalid_argument,
        "a run of an engine with a weight budget cannot be recorded into a CUDA graph, as runs share the memory "
        "for its weights by turns: take the budget away, or leave the recording to the engine");
  start_run(stream);
  if (!waits_ && !is_in_callers_recording_) main_->queue->mark_run();
  keeps_memory_ |= is_in_callers_recording_;
  try {
    run_steps(bound, kept, recordings, memory);
    if (waits_) wait_for_gpus();
    deliver_small_outputs();
  } catch (...) {
    if (!is_in_callers_recording_) ++failures_;
    try {
      finish_run();
    } catch (const Error&) {  // the first error says why
    }
    throw;
  }
  finish_run();
}

void Executor::run_steps(const BoundPlan& bound, KeptValues& kept, Recordings& recordings, const CallerMemory& memory) {
  const WeightTurn turn(weights_, stream_, cancellation, main_ ? main_->queue.get() : nullptr);
  const ThreadPool::Session session(pool_);
  const BorrowedArena borrowed(arenas_, static_cast<size_t>(bound.arena_bytes(DeviceId::host)), arena_);
  bind(bound, kept, memory);
  bool late = false;
  for (size_t s = 0; s < plan_->steps.size(); ++s) late = late || bound.launch(s) == nullptr;
  if (late) late_symbols_ = bound.symbols();
  given_up_ = 0;
  if (profiler) prepare_profile();
  ran_hoisted_ = !is_in_callers_recording_ && (!are_computed(bound, kept) || taps_hoisted(bound));
  if (weights_) start_weights(bound);
  if (ran_hoisted_) {
    kept.computed_at = -1;
    run_hoisted(bound);
    kept.computed_at = failures_;
  }
  for (size_t s = 0; s < plan_->steps.size(); ++s) left_out_[s] = left_out_[s] || bound.is_hoisted(s);
  if (is_in_callers_recording_) check_recordable(bound);
  stage_small(bound);
  copy_small(small_inputs_);
  std::vector<RecordedSteps>& recorded = recordings.of(*plan_, bound, left_out_);
  const bool by_step = !taps.empty() || is_in_callers_recording_ || traces_layers_;
  if (weights_ && !by_step) stop_weights_at(recorded);
  auto next = !by_step ? recorded.begin() : recorded.end();
  for (size_t s = 0; s < plan_->steps.size(); ++s) {
    if (left_out_[s]) continue;
    if (next != recorded.end() && next->begin == s) {
      check_cancellation(s);
      run_recorded(bound, *next);
      s = next->end - 1;
      ++next;
      continue;
    }
    run_single(bound, s);
    if (late) {
      for (const int32_t id : plan_->steps[s].inputs) {
        if (id < 0) continue;
        const int32_t root = plan_->root(id);
        if (plan_->values[static_cast<size_t>(root)].storage == Storage::dynamic &&
            plan_->values[static_cast<size_t>(root)].last_step == static_cast<int32_t>(s))
          give_up(dynamic_[static_cast<size_t>(root)]);
      }
    }
  }
  copy_small(small_outputs_);
  finish_outputs(bound, memory);
  if (late) dynamic_room_.set(std::min(given_up_, most_dynamic_room));
  if (profiler) finish_profile(bound);
}

void Executor::start_weights(const BoundPlan& bound) {
  streamed_steps_.clear();
  for (size_t s = 0; s < plan_->steps.size(); ++s)
    if (ran_hoisted_ && bound.is_hoisted(s)) streamed_steps_.push_back(static_cast<int32_t>(s));
  for (size_t s = 0; s < plan_->steps.size(); ++s)
    if (!left_out_[s] && !bound.is_hoisted(s)) streamed_steps_.push_back(static_cast<int32_t>(s));
  weights_->start(streamed_steps_);
}

void Executor::stop_weights_at(const std::vector<RecordedSteps>& recorded) {
  std::vector<size_t> places;
  size_t place = weights_->place();
  auto next = recorded.begin();
  for (size_t s = 0; s < plan_->steps.size() && next != recorded.end(); ++s) {
    if (s == next->begin) places.push_back(place);
    if (!left_out_[s]) ++place;
    if (s + 1 != next->end) continue;
    places.push_back(place);
    ++next;
  }
  weights_->stop_ahead(places);
}

void Executor::await_weights(size_t s) {
  try {
    weights_->await();
  } catch (const Error& e) {
    const PlanStep& step = plan_->steps[s];
    throw Error(e.code(), fmt::format("{}: {}", layer_name(step.name, step.sources), e.what()));
  }
}

void Executor::run_hoisted(const BoundPlan& bound) {
  const NvtxRange range([] { return "what depends on the shapes alone"; });
  for (size_t s = 0; s < plan_->steps.size(); ++s)
    if (bound.is_hoisted(s)) run_single(bound, s);
}

bool Executor::taps_hoisted(const BoundPlan& bound) const {
  return std::any_of(taps.begin(), taps.end(), [&](const auto& tap) {
    const int32_t step = plan_->values[static_cast<size_t>(written_value(tap.first))].first_step;
    return step >= 0 && bound.is_hoisted(static_cast<size_t>(step));
  });
}

void Executor::check_cancellation(size_t s) const {
  if (cancellation.cancelled())
    throw Error(ErrorCode::cancelled, fmt::format("cancelled before layer '{}'", plan_->steps[s].name));
}

void Executor::run_single(const BoundPlan& bound, size_t s) {
  check_cancellation(s);
  if (weights_) await_weights(s);
  const bool is_timed = profiler && plan_->steps[s].device.is_host();
  if (is_timed) wait_for_gpus();  // which is no time of this layer's
  const auto start = is_timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  run_named(bound, s);
  if (is_timed) {
    const double seconds = seconds_since(start);
    LayerTime& layer = profiler->layers_[s];
    layer.seconds += seconds;
    ++layer.runs;
    if (spans_)
      spans_->layers.push_back({static_cast<int64_t>(s), DeviceId::host, {profiler->seconds_until(start), seconds}});
  }
  if (weights_) weights_->done();
  if (!taps.empty()) call_taps(bound, plan_->steps[s].outputs);
}

void Executor::check_recordable(const BoundPlan& bound) const {
  if (profiler || !taps.empty())
    throw Error(ErrorCode::invalid_argument,
                "the stream is being recorded into a CUDA graph: no profiler and no taps can be set");
  for (size_t s = 0; s < plan_->steps.size(); ++s) {
    const PlanStep& step = plan_->steps[s];
    if (left_out_[s] || (bound.launch(s) && step.kernel->can_be_recorded())) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("layer '{}' ({}) runs on the host or copies between host and device, which cannot be "
                            "recorded into a CUDA graph{}",
                            step.name, step.op, step.device.is_gpu() ? ": bind inputs and outputs on the device" : ""));
  }
}

void Executor::prepare_profile() {
  for (auto& [id, gpu] : gpus_)
    if (!gpu.timeline) gpu.timeline = gpu.queue->make_timeline(2 * plan_->steps.size() + 1);
  spans_.reset();
  if (profiler->keeps_run()) begin_spans();
  if (profiler->layers_.size() == plan_->steps.size()) return;
  profiler->layers_.clear();
  for (const PlanStep& step : plan_->steps)
    profiler->layers_.push_back({step.name, step.op, step.tactic, step.sources, 0, 0, step.is_invariant});
}

void Executor::begin_spans() {
  spans_.emplace();
  spans_->thread = static_cast<int64_t>(::syscall(SYS_gettid));
  // GPUs have clocks of their own: an idle one is at this moment within the microseconds that an event takes.
  for (auto& [id, gpu] : gpus_) {
    gpu.queue->synchronize();
    gpu.timeline->mark(2 * plan_->steps.size());
    gpu.run_begin = profiler->seconds_until(Profiler::Clock::now());
    gpu.is_busy = true;
  }
  spans_->time.start = profiler->seconds_until(Profiler::Clock::now());
}

void Executor::finish_profile(const BoundPlan& bound) {
  wait_for_gpus();
  for (size_t s = 0; s < plan_->steps.size(); ++s) {
    const bool ran = bound.is_hoisted(s) ? ran_hoisted_ : !left_out_[s];
    if (!ran || plan_->steps[s].device.is_host()) continue;
    const OnGpu& gpu = gpus_.at(plan_->steps[s].device);
    const double seconds = gpu.timeline->seconds(2 * s, 2 * s + 1);
    LayerTime& layer = profiler->layers_[s];
    layer.seconds += seconds;
    ++layer.runs;
    if (!spans_) continue;
    const double since_begin = gpu.timeline->seconds(2 * plan_->steps.size(), 2 * s);
    spans_->layers.push_back({static_cast<int64_t>(s), plan_->steps[s].device, {gpu.run_begin + since_begin, seconds}});
  }
  if (!spans_) return;
  spans_->time.seconds = profiler->seconds_until(Profiler::Clock::now()) - spans_->time.start;
  profiler->runs_.push_back(std::move(*spans_));
  spans_.reset();
}

void Executor::wait_for_gpus() {
  for (auto& [id, gpu] : gpus_) {
    if (!gpu.is_busy) continue;
    gpu.is_busy = false;
    gpu.queue->synchronize();
  }
}

// A step, whose name errors begin with.
void Executor::run_named(const BoundPlan& bound, size_t s) {
  const NvtxRange range([&] { return range_name(plan_->steps[s]); });
  try {
    pool_.adapt();
    name_out_of_memory([] { return "out of memory while running"; },
                       [&] { return bound.launch(s) ? run_step(bound, s) : run_dynamic_step(bound, s); });
  } catch (const Error& e) {
    const PlanStep& step = plan_->steps[s];
    throw Error(e.code(), fmt::format("{}: {}", layer_name(step.name, step.sources), e.what()));
  }
}

void Executor::run_recorded(const BoundPlan& bound, RecordedSteps& steps) {
  recorded_operands_.clear();
  for (size_t s = steps.begin; s < steps.end; ++s) {
    if (left_out_[s]) continue;
    find_operands(bound, s);
    recorded_operands_.insert(recorded_operands_.end(), step_inputs_.begin(), step_inputs_.end());
    recorded_operands_.insert(recorded_operands_.end(), step_outputs_.begin(), step_outputs_.end());
    recorded_operands_.push_back(step_workspace_);
  }
  RecordedSteps::Run* before = steps.find(recorded_operands_);
  if (!before) before = update_recording(bound, steps);
  if (!before) {
    steps.remember(recorded_operands_);
    return run_all(bound, steps);
  }
  const auto count = static_cast<size_t>(std::count(left_out_.begin() + static_cast<std::ptrdiff_t>(steps.begin),
                                                    left_out_.begin() + static_cast<std::ptrdiff_t>(steps.end), false));
  std::unique_ptr<DeviceRecording>& recording = profiler ? before->timed : before->recording;
  if (!recording) recording = record(bound, steps, count);
  gpus_.at(plan_->steps[steps.begin].device).is_busy = true;
  const NvtxRange range([&] {
    return fmt::format("{} to {}, recorded", range_name(plan_->steps[steps.begin]),
                       range_name(plan_->steps[steps.end - 1]));
  });
  if (weights_) weights_->before_replay();
  recording->replay();
  if (weights_) weights_->replayed(count);
}

RecordedSteps::Run* Executor::update_recording(const BoundPlan& bound, RecordedSteps& steps) {
  if (profiler || !steps.can_be_updated) return nullptr;
  RecordedSteps::Run* const run = steps.find_fallback();
  if (!run) return nullptr;
  if (run->recording) {
    struct Part {
      size_t step, number;
    };
    std::vector<Part> changed;
    size_t parts = 0;
    for (size_t s = steps.begin, at = 0; s < steps.end; ++s) {
      if (left_out_[s]) continue;
      const size_t end = at + plan_->steps[s].inputs.size() + plan_->steps[s].outputs.size() + 1;
      if (!std::equal(run->operands.data() + at, run->operands.data() + end, recorded_operands_.data() + at)) {
        if (!plan_->steps[s].kernel->can_be_updated()) return nullptr;
        changed.push_back({s, parts});
      }
      at = end;
      ++parts;
    }
    // One of these takes the host as long as some launches.
    constexpr size_t launches = 4;
    if (launches * changed.size() > parts) return nullptr;
    auto before = std::move(run->recording);  // which is lost where only some of it is of this run
    for (const auto& [step, part] : changed)
      if (!before->replace(part, [&, s = step] { run_named(bound, s); })) {
        steps.can_be_updated = false;
        return nullptr;
      }
    run->recording = std::move(before);
  }
  run->operands = recorded_operands_;
  run->timed.reset();
  return steps.find(recorded_operands_);  // now the latest
}

void Executor::run_all(const BoundPlan& bound, const RecordedSteps& steps, bool in_parts) {
  DeviceQueue& queue = *gpus_.at(plan_->steps[steps.begin].device).queue;
  for (size_t s = steps.begin; s < steps.end; ++s) {
    if (left_out_[s]) continue;
    if (weights_) await_weights(s);
    if (in_parts) queue.begin_part();
    run_named(bound, s);
    if (in_parts) queue.finish_part();
    if (weights_) weights_->done();
  }
}

std::unique_ptr<DeviceRecording> Executor::record(const BoundPlan& bound, const RecordedSteps& steps, size_t count) {
  const NvtxRange range([] { return "recording"; });
  DeviceQueue& queue = *gpus_.at(plan_->steps[steps.begin].device).queue;
  queue.put_into_recording([&] {
    if (weights_) weights_->start_recording(count);
    run_all(bound, steps, true);
  });
  if (weights_) weights_->finish_recording();
  return queue.finish_recording();
}

void Executor::find_operands(const BoundPlan& bound, size_t s) {
  const PlanStep& step = plan_->steps[s];
  step_inputs_.clear();
  step_outputs_.clear();
  for (const int32_t id : step.inputs) {
    // A view of known shape: whether it fits what it sees is known only now.
    if (id >= 0 && plan_->values[static_cast<size_t>(plan_->root(id))].storage == Storage::dynamic) tensor(bound, id);
    step_inputs_.push_back(id < 0 ? nullptr : pointer(bound, id));
  }
  for (const int32_t id : step.outputs) step_outputs_.push_back(pointer(bound, id));
  step_workspace_ = arena(step.device) + bound.workspace_offset(s);
}

Executor::OnGpu* Executor::source_of(const PlanStep& step) {
  if (gpus_.size() < 2 || step.inputs.size() != 1 || step.inputs[0] < 0) return nullptr;
  const DeviceId device = plan_->values[static_cast<size_t>(plan_->root(step.inputs[0]))].device;
  return device.is_host() || device == step.device ? nullptr : &gpus_.at(device);
}

void Executor::run_step(const BoundPlan& bound, size_t s) {
  find_operands(bound, s);
  const PlanStep& step = plan_->steps[s];
  if (step.device.is_host()) {
    wait_for_gpus();
    return bound.launch(s)->run({step_inputs_, step_outputs_, step_workspace_, pool_, &cancellation});
  }
  OnGpu& gpu = gpus_.at(step.device);
  OnGpu* const source = source_of(step);
  gpu.is_busy = true;
  if (source) order(gpu, *source);
  if (profiler) gpu.timeline->mark(2 * s);
  bound.launch(s)->run({step_inputs_, step_outputs_, step_workspace_, pool_, &cancellation, gpu.queue.get(),
                        source ? source->queue.get() : nullptr});
  if (profiler) gpu.timeline->mark(2 * s + 1);
  if (source) order(*source, gpu);  // which may write over what is copied
}

Dims Executor::current_dims(const BoundPlan& bound, int32_t value) const {
  if (bound.known(value)) return bound.dims(value);
  Dims dims;
  for (const Dim& d : plan_->values[static_cast<size_t>(value)].type.shape) dims.push_back(d.evaluate(late_symbols_));
  return dims;
}

Tensor Executor::tensor(const BoundPlan& bound, int32_t value) const {
  const int32_t root = plan_->root(value);
  const PlanValue& r = plan_->values[static_cast<size_t>(root)];
  const Dims dims = current_dims(bound, value);
  if (r.storage == Storage::dynamic) return dynamic_[static_cast<size_t>(root)].reshaped(dims);
  if (r.storage == Storage::constant) return r.constant->reshaped(dims);
  const size_t bytes = operand_bytes(r.type.dtype, dims);
  if (root != value && bytes != operand_bytes(r.type.dtype, current_dims(bound, root)))
    throw Error(ErrorCode::invalid_argument, fmt::format("tensor '{}' of shape {} cannot be seen as {}", r.name,
                                                         to_string(current_dims(bound, root)), to_string(dims)));
  return Tensor(r.type.dtype, dims, {pointers_[static_cast<size_t>(root)], bytes}, nullptr);
}

// The next run, or a later step of this one, will ask for about as much: until then it is kept, as an arena is.
void Executor::give_up(Tensor& dynamic) {
  given_up_ += dynamic.bytes();
  dynamic_room_.set(std::min(std::max(given_up_, dynamic_room_.bytes()), most_dynamic_room));
  dynamic = Tensor();
}

// A step whose sizes were not known in advance: its outputs get memory of their own, now.
void Executor::run_dynamic_step(const BoundPlan& bound, size_t s) {
  const PlanStep& step = plan_->steps[s];
  wait_for_gpus();
  // What the run before has left: its memory, still in cache, is the first that is taken again.
  for (const int32_t id : step.outputs) give_up(dynamic_[static_cast<size_t>(id)]);
  std::vector<Tensor> results;
  if (step.kernel->has_dynamic_outputs()) {
    std::vector<Tensor> inputs;
    for (const int32_t id : step.inputs) inputs.push_back(id < 0 ? Tensor() : tensor(bound, id));
    results = step.kernel->run_dynamic(inputs, late_symbols_, pool_, &cancellation);
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      const PlanValue& value = plan_->values[static_cast<size_t>(step.outputs[o])];
      bind_symbols(value.type.shape, results[o].dims(), fmt::format("tensor '{}'", value.name), late_symbols_);
      // A reshape to sizes that only running tells gives its operand's bytes, which may be the arena's.
      results[o] = results[o].owned();
    }
  } else {
    const KernelShapes shapes = kernel_shapes(*plan_, step, late_symbols_, pool_.size());
    const std::unique_ptr<Launch> launch = step.kernel->prepare(shapes);
    step_inputs_.clear();
    step_outputs_.clear();
    for (const int32_t id : step.inputs) {
      if (id >= 0) tensor(bound, id);  // throws where a view does not fit what is there
      const bool dynamic = id >= 0 && plan_->values[static_cast<size_t>(plan_->root(id))].storage == Storage::dynamic;
      step_inputs_.push_back(id < 0    ? nullptr
                             : dynamic ? dynamic_[static_cast<size_t>(plan_->root(id))].data()
                                       : pointer(bound, id));
    }
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      const PlanValue& value = plan_->values[static_cast<size_t>(step.outputs[o])];
      const bool fixed = value.storage == Storage::arena || value.storage == Storage::output;
      results.push_back(fixed ? Tensor() : Tensor::uncleared(shapes.outputs[o].dtype, shapes.outputs[o].dims));
      step_outputs_.push_back(fixed ? pointers_[static_cast<size_t>(step.outputs[o])] : results.back().mutable_data());
    }
    if (late_workspace_.size() < std::max<size_t>(launch->workspace_bytes(), 64)) {
      late_workspace_ = AlignedBuffer();
      late_workspace_ = AlignedBuffer(std::max<size_t>(launch->workspace_bytes(), 64), "the workspace of a layer");
    }
    launch->run({step_inputs_, step_outputs_, late_workspace_.data(), pool_, &cancellation});
  }
  for (size_t o = 0; o < step.outputs.size(); ++o) {
    const auto v = static_cast<size_t>(step.outputs[o]);
    const PlanValue& value = plan_->values[v];
    if (value.storage == Storage::dynamic) {
      pointers_[v] = const_cast<std::byte*>(results[o].data());
      dynamic_[v] = std::move(results[o]);
    } else if (results[o].defined() && results[o].bytes() > 0) {
      std::memcpy(pointers_[v], results[o].data(), results[o].bytes());
    }
  }
}

int32_t Executor::written_value(int32_t tapped) const {
  while (plan_->values[static_cast<size_t>(tapped)].first_step < 0 && tapped != plan_->root(tapped))
    tapped = plan_->values[static_cast<size_t>(tapped)].index;
  return tapped;
}

void Executor::call_taps(const BoundPlan& bound, const std::vector<int32_t>& values) {
  for (const auto& [value, tap] : taps) {
    const int32_t written = written_value(value);
    if (std::find(values.begin(), values.end(), written) == values.end()) continue;
    wait_for_gpus();
    const Dims dims = current_dims(bound, value);
    const PlanValue& v = plan_->values[static_cast<size_t>(written)];
    const size_t bytes = operand_bytes(v.type.dtype, dims);
    const std::byte* data = pointer(bound, value);
    const bool sliced = bound.row_stride(value) > 0;
    const size_t row = sliced ? byte_size(v.type.dtype, dims.back()) : bytes;
    const size_t step = sliced ? byte_size(v.type.dtype, bound.row_stride(value)) : 0;
    wait_for_gpus();
    std::vector<std::byte> on_host;
    const DeviceId device = plan_->values[static_cast<size_t>(plan_->root(value))].device;
    if (device.is_gpu() && bytes > 0) {
      DeviceQueue& queue = *gpus_.at(device).queue;
      on_host.resize((bytes / row - 1) * step + row);
      queue.copy_to_host(on_host, data);
      queue.synchronize();
      data = on_host.data();
    }
    if (sliced) {
      Tensor dense(v.type.dtype, dims);
      std::byte* const to = dense.mutable_data();
      constexpr size_t grain = 1 << 16;
      const size_t rows = bytes > 0 ? bytes / row : 0;
      pool_.parallel_for(static_cast<int64_t>(rows), static_cast<int64_t>(grain / std::max<size_t>(row, 1) + 1),
                         [&](int64_t begin, int64_t end) {
                           for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
                             std::memcpy(to + i * row, data + i * step, row);
                         });
      tap(view_of(dense), pool_);
    } else if (is_container(v.type.dtype)) {
      tap(view_of(Tensor(v.type.dtype, dims, {data, bytes}, nullptr)), pool_);
    } else {
      tap({v.type.dtype, dims, data, bytes}, pool_);
    }
  }
}

TensorView Executor::output(size_t index) const {
  return results_.at(index);
}

}  // namespace camshaft
