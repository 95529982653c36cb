#include "runtime/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/available_cores.h"
#include "base/default_limits.h"
#include "base/out_of_memory.h"
#include "base/work_scope.h"
#include "base/workers.h"
#include "ir/container_type.h"
#include "ir/ops/size_bounds.h"
#include "ir/symbols.h"
#include "reference/evaluate.h"
#include "reference/operations.h"
#include "runtime/adapters.h"
#include "runtime/context_impl.h"
#include "runtime/link_ranks.h"
#include "runtime/shared_memory_check.h"
#include "runtime/tensor_view.h"

namespace camshaft {

namespace {

// Shapes whose plans a context remembers. A plan is a few hundred kilobytes at most, and what is kept beside all of
// them together most_kept_bytes; more shapes in turn means planning again, a millisecond or so, and computing that
// again.
constexpr size_t max_cached_shapes = 16;

template <class Names>
std::string listed(const Names& infos) {
  std::string out;
  for (const auto& info : infos) out += (out.empty() ? "" : ", ") + info.name;
  return out;
}

size_t find(const std::vector<TensorInfo>& infos, const std::string& name, const char* what) {
  for (size_t i = 0; i < infos.size(); ++i)
    if (infos[i].name == name) return i;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("no {} is named '{}'; the {}s are: {}", what, name, what, listed(infos)));
}

std::string described(const TensorInfo& info) {
  std::string out = "[";
  for (size_t i = 0; i < info.dim_names.size(); ++i) out += (i ? ", " : "") + info.dim_names[i];
  return out + "]";
}

std::vector<std::unique_ptr<DeviceQueue>> queues_of(const Backend& backend) {
  std::vector<std::unique_ptr<DeviceQueue>> queues;
  if (auto queue = backend.make_queue()) queues.push_back(std::move(queue));
  return queues;
}

}  // namespace

std::shared_ptr<Workers> make_workers(int threads) {
  if (threads < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("there cannot be {} worker threads; give 1 or more, or 0 for one a core", threads));
  return std::make_shared<Workers>(threads > 0 ? threads : available_cores());
}

namespace {

// More threads than the process has workers for are not cut: what was asked for is what a benchmark then measures.
std::shared_ptr<Workers> workers_for(const ContextOptions& options) {
  if (options.workers) return options.workers;
  const std::shared_ptr<Workers>& shared = Workers::of_process();
  return options.threads > shared->limit() ? make_workers(options.threads) : shared;
}

constexpr double unlimited_bytes = 4e18;  // more than any memory, and less than 2^62

// Of an option that is 0 for the default, and below for no limit.
template <class Default>
double limit(double option, Default&& by_default) {
  if (option < 0) return std::numeric_limits<double>::infinity();
  return option > 0 ? option : static_cast<double>(by_default());
}

// At the sizes that kernels were chosen for; others count as 1.
double input_bytes(const Engine::Impl& engine) {
  double bytes = 0;
  for (const ValueId id : engine.graph.inputs) {
    if (holds_objects(engine.graph.type(id).dtype)) continue;
    double elements = bit_width(engine.graph.type(id).dtype) / 8.0;
    for (const Dim& d : engine.graph.shape(id))
      if (is_bound({d}, engine.optimum)) elements *= static_cast<double>(d.evaluate(engine.optimum));
    bytes += elements;
  }
  return bytes;
}

std::shared_ptr<Budget> make_budget(const Engine::Impl& engine, const ContextOptions& options) {
  if (options.max_operations < 0 && options.max_memory < 0) return nullptr;
  const double bytes = limit(options.max_memory, [&] { return default_memory(engine.weight_bytes()); });
  return std::make_shared<Budget>(
      limit(options.max_operations, [&] { return default_operations(engine.weight_bytes(), input_bytes(engine)); }),
      static_cast<size_t>(std::min(bytes, unlimited_bytes)),
      "smaller shapes (--shapes) need fewer, and --max-operations (the option 'max-operations') allows more",
      "smaller shapes (--shapes) need less, and --max-memory (the option 'max-memory') allows more");
}

Executor make_executor(const Engine::Impl& engine, ArenaPool& shared, const ContextOptions& options) {
  std::shared_ptr<Workers> workers = workers_for(options);
  const int threads = options.threads > 0 ? options.threads : workers->limit();
  std::vector<std::unique_ptr<DeviceQueue>> queues = queues_of(*engine.backend);
  // A device may still read the host's arena when a run has returned.
  ArenaPool* const arenas = options.shares_memory && queues.empty() ? &shared : nullptr;
  return {engine.plan, std::move(workers), threads, std::move(queues), arenas};
}

}  // namespace

Context::Impl::Impl(std::shared_ptr<Engine::Shared> of, const ContextOptions& options)
    : shared(std::move(of)),
      engine(shared->current()),
      executor(make_executor(*engine, shared->arenas, options)),
      budget_(make_budget(*engine, options)) {
  for (const TensorInfo& info : engine->inputs) {
    const bool fixed = std::none_of(info.dims.begin(), info.dims.end(), [](int64_t d) { return d < 0; });
    input_dims.push_back(fixed ? std::optional<Dims>(info.dims) : std::nullopt);
  }
  executor.take(engine->plan, engine->stream.get());
  memory.inputs.resize(engine->inputs.size());
  memory.outputs.resize(engine->outputs.size());
  container_inputs.resize(engine->inputs.size());
  adapters = adapters_of(engine->metadata);
  if (adapters.empty()) return;
  // Who says nothing gets the model as it is.
  static int64_t no_adapter = 0;
  adapter_input = input_index(std::string(lora_input));
  memory.inputs[adapter_input] = {reinterpret_cast<std::byte*>(&no_adapter), sizeof(no_adapter), DeviceId::host};
}

Context::Impl::~Impl() {
  if (async_ && async_->is_of_parent()) static_cast<void>(async_.release());
  async_.reset();
  try {
    executor.wait_for_runs();  // kernels may have memory of their own
  } catch (const Error&) {     // nobody asks any more
  }
}

size_t Context::Impl::input_index(const std::string& name) const {
  return find(engine->inputs, name, "input");
}
size_t Context::Impl::output_index(const std::string& name) const {
  return find(engine->outputs, name, "output");
}

void Context::Impl::check_profiles() const {
  if (engine->profiles.empty()) return;
  std::string why;
  for (const Profile& profile : engine->profiles) {
    bool fits = true;
    for (const auto& [name, range] : profile.inputs) {
      const size_t i = input_index(name);
      const Dims& dims = *input_dims[i];
      for (size_t d = 0; d < dims.size(); ++d) {
        if (dims[d] >= range.min[d] && dims[d] <= range.max[d]) continue;
        fits = false;
      }
      if (!fits)
        why += fmt::format("{}'{}' is {}, the profile takes {} to {}", why.empty() ? "" : "; ", name, to_string(dims),
                           to_string(range.min), to_string(range.max));
      if (!fits) break;
    }
    if (fits) return;
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the input shapes are outside every profile of this engine: {}", why));
}

Context::Impl::CacheEntry* Context::Impl::find_entry() {
  for (auto it = cache_.begin(); it != cache_.end(); ++it) {
    const bool same = std::equal(it->dims.begin(), it->dims.end(), input_dims.begin(),
                                 [](const Dims& a, const std::optional<Dims>& b) { return b && a == *b; });
    if (!same) continue;
    cache_.splice(cache_.begin(), cache_, it);
    return &cache_.front();
  }
  return nullptr;
}

void Context::Impl::take_weights() {
  std::shared_ptr<const Engine::Impl> now = shared->current();
  if (now == engine) return;
  executor.wait_for_runs();
  Retired old{engine, {}};
  for (auto it = cache_.begin(); it != cache_.end();) {
    const auto entry = it++;
    if (entry->is_pinned) old.pinned.splice(old.pinned.end(), cache_, entry);
  }
  cache_.clear();
  if (!old.pinned.empty()) retired_.push_back(std::move(old));
  executor.take(now->plan, now->stream.get());
  engine = std::move(now);
}

Context::Impl::CacheEntry& Context::Impl::bind_entry() {
  if (CacheEntry* known = find_entry()) {
    executor.reserve(*known->bound);  // a larger plan may have failed to get its arena since
    return *known;
  }
  SymbolBindings symbols;
  std::vector<Dims> dims;
  for (size_t i = 0; i < input_dims.size(); ++i) {
    const TensorInfo& info = engine->inputs[i];
    if (!input_dims[i])
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the shape of input '{}' {} is not set yet", info.name, described(info)));
    dims.push_back(*input_dims[i]);
    // All names first: one input's expression may use another's name.
    const Shape& shape = engine->graph.shape(engine->graph.inputs[i]);
    for (size_t d = 0; d < shape.size(); ++d)
      if (const auto symbol = shape[d].as_symbol()) symbols.emplace(*symbol, dims.back()[d]);
  }
  for (size_t i = 0; i < dims.size(); ++i)
    bind_symbols(engine->graph.shape(engine->graph.inputs[i]), dims[i],
                 fmt::format("input '{}'", engine->inputs[i].name), symbols);
  check_profiles();
  std::optional<WorkScope> budgeted;
  if (budget_) {
    check_operations(engine->graph, symbols, *budget_);
    budgeted.emplace(executor.cancellation, budget_);
  }
  auto bound = std::make_unique<BoundPlan>(engine->plan, std::move(symbols), executor.most_threads());
  executor.reserve(*bound);
  make_room(bound->kept_bytes());
  KeptValues kept = executor.make_kept_values(*bound);
  cache_.push_front({std::move(dims), std::move(bound), std::move(kept), {}});
  return cache_.front();
}

int64_t Context::Impl::kept_bytes() const {
  int64_t bytes = 0;
  for (const CacheEntry& entry : cache_) bytes += entry.kept.bytes;
  return bytes;
}

void Context::Impl::make_room(int64_t kept_bytes) {
  bool has_waited = false;
  for (;;) {
    const bool is_full = cache_.size() >= max_cached_shapes;
    if (!is_full && this->kept_bytes() + kept_bytes <= most_kept_bytes) return;
    const auto oldest = std::find_if(cache_.rbegin(), cache_.rend(), [&](const CacheEntry& entry) {
      return !entry.is_pinned && (is_full || entry.kept.bytes > 0);
    });
    if (oldest == cache_.rend()) return;
    if (!has_waited) executor.wait_for_runs();
    has_waited = true;
    cache_.erase(std::next(oldest).base());
  }
}

void Context::Impl::check_memory(const std::string& what, const TensorInfo& info, const void* data,
                                 DeviceId device) const {
  if (device.is_gpu()) {
    if (!executor.queue())
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("{} is said to be on a GPU, but this engine runs on the CPU: give memory of the host", what));
    if (device != engine->backend->device().id)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("{} is said to be on GPU {}; this engine runs on GPU {}: copy it there, or load the engine "
                      "for that GPU",
                      what, device.ordinal(), engine->backend->device().id.ordinal()));
    if (holds_objects(info.dtype))
      throw Error(ErrorCode::invalid_argument, fmt::format("{} is {}, which is the host's alone", what, info.type));
    const size_t alignment = byte_size(info.dtype, 1);
    if (reinterpret_cast<uintptr_t>(data) % alignment != 0)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} is at {}, which is not aligned to {} bytes, the size of {}", what, data, alignment,
                              to_string(info.dtype)));
  }
  if (data && executor.queue()) executor.queue()->check_memory(data, device, what);
}

void Context::Impl::set_memory(size_t input, const CallerBuffer& buffer) {
  memory.inputs[input] = buffer;
  // A decoder's small inputs change in each step, beside hundreds of caches that stay.
  may_overlap = may_overlap || std::any_of(memory.outputs.begin(), memory.outputs.end(),
                                           [&](const CallerBuffer& output) { return overlap(output, buffer); });
}

void Context::Impl::run(const RunPlace& place) {
  if (shared->ranks == 0) return run_alone(place);
  if (!communicator && !rehearses)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the engine is one of {} ranks, and its context has no communicator: set one, and run all "
                            "ranks at the same time",
                            shared->ranks));
  const CommunicatorScope scope(communicator.get());
  try {
    if (communicator) {
      const WorkScope work(executor.cancellation);
      link_ranks(*communicator, *engine->backend);
    }
    run_alone(place);
  } catch (const std::exception& e) {
    if (communicator) {
      communicator->abort(fmt::format("rank {}: {}", communicator->rank(), e.what()));
      if (communicator->link()) communicator->link()->abort();
    }
    throw;
  }
}

void Context::Impl::run_alone(const RunPlace& place) {
  // No memory can be taken while the caller records the stream.
  const bool is_recorded = place.stream && executor.queue()->is_recorded(*place.stream);
  if (!is_recorded) take_weights();
  CacheEntry* known = is_recorded ? find_entry() : &bind_entry();
  if (!known || (is_recorded && engine != shared->current()) ||
      (is_recorded && (!executor.has_room(*known->bound) || !executor.are_computed(*known->bound, known->kept))))
    throw Error(ErrorCode::invalid_argument,
                "the stream is being recorded into a CUDA graph, for which this context must have run with these input "
                "shapes, and with the weights that the engine has now, before");
  CacheEntry& entry = *known;
  entry.is_pinned = entry.is_pinned || is_recorded;
  const BoundPlan& bound = *entry.bound;
  for (size_t i = 0; i < memory.inputs.size(); ++i) {
    const TensorInfo& info = engine->inputs[i];
    const size_t needed = bound.bytes(engine->plan.inputs[i]);
    if (!memory.inputs[i].data && needed > 0)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("input '{}' has no data; bind it before running", info.name));
    if (memory.inputs[i].bytes < needed)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("input '{}' of shape {} needs {} bytes, {} are bound", info.name,
                              to_string(*input_dims[i]), needed, memory.inputs[i].bytes));
  }
  if (may_overlap) check_overlaps(memory, bound, engine->plan, engine->outputs);
  may_overlap = false;
  if (!adapters.empty() && !memory.inputs[adapter_input].device.is_gpu()) {
    int64_t chosen = 0;
    std::memcpy(&chosen, memory.inputs[adapter_input].data, sizeof(chosen));
    check_adapter(chosen, adapters);
  }
  has_run = false;
  // In a recording of the caller's nobody can look whenever that is launched.
  if (communicator && communicator->link() && !is_recorded) {
    const WorkScope work(executor.cancellation);
    if (entry.collectives.empty()) entry.collectives = described_collectives(engine->graph, bound.symbols());
    meet_for_run(*communicator, entry.collectives);
  }
  std::optional<WorkScope> budgeted;
  if (budget_) {
    budget_->take_operations(-budget_->operations_taken());  // those of the run before: each has them all
    budgeted.emplace(executor.cancellation, budget_);
  }
  name_out_of_memory([] { return "out of memory while running"; },
                     [&] { executor.run(bound, entry.kept, entry.recordings, memory, place); });
  has_run = true;
}

void Context::Impl::check_has_gpu(const char* what) const {
  if (!executor.queue())
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} needs an engine built for a GPU; this one runs on the CPU: call run() or run_async()", what));
}

void Context::Impl::forget_recordings() {
  executor.wait_for_runs();
  for (CacheEntry& entry : cache_) entry.recordings = {};
}

void Context::Impl::start_async(std::function<void(std::exception_ptr)> completion) {
  if (!completion) throw Error(ErrorCode::invalid_argument, "run_async() was given nothing to call when it is done");
  if (async_ && async_->is_of_parent()) static_cast<void>(async_.release());
  if (!async_) async_ = std::make_unique<AsyncRuns>([this] { run(); });
  async_->start(std::move(completion));
}

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;
Context::~Context() = default;

void Context::set_input_shape(const std::string& name, const std::vector<int64_t>& dims) {
  const size_t i = impl_->input_index(name);
  if (impl_->input_dims[i] == dims) return;
  const TensorInfo& info = impl_->engine->inputs[i];
  if (dims.size() != info.dims.size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input '{}' has shape {}: {} has {} dimensions instead of {}", name, described(info),
                            to_string(dims), dims.size(), info.dims.size()));
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] < 0 || (info.dims[d] >= 0 && dims[d] != info.dims[d]))
      throw Error(ErrorCode::invalid_argument, fmt::format("input '{}' has shape {}: {} does not fit in dimension {}",
                                                           name, described(info), to_string(dims), d));
  }
  impl_->input_dims[i] = dims;
  impl_->may_overlap = true;
}

void Context::bind_input(const std::string& name, const void* data, size_t bytes, DeviceId device) {
  const size_t i = impl_->input_index(name);
  if (is_container(impl_->engine->inputs[i].dtype))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input '{}' is {}: bind a tensor with camshaft_context_set_input", name,
                            impl_->engine->inputs[i].type));
  impl_->check_memory(fmt::format("input '{}'", name), impl_->engine->inputs[i], data, device);
  impl_->set_memory(i, {static_cast<std::byte*>(const_cast<void*>(data)), bytes, device});
}

void Context::set_input(const std::string& name, const std::vector<int64_t>& dims, const void* data, DeviceId device) {
  set_input_shape(name, dims);
  const TensorInfo& info = impl_->engine->inputs[impl_->input_index(name)];
  bind_input(name, data, operand_bytes(info.dtype, dims), device);
}

void Context::set_input(const std::string& name, const TensorView& value) {
  const size_t i = impl_->input_index(name);
  const TensorInfo& info = impl_->engine->inputs[i];
  if (info.dtype == DType::optional && value.dtype != DType::optional)
    return set_input(name, TensorView{DType::optional, {}, nullptr, 0, {value}});
  if (value.dtype != info.dtype)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input '{}' is {}, a value of {} is given", name, info.type, to_string(value.dtype)));
  if (!holds_objects(value.dtype) || !value.device.is_host()) {
    if (value.bytes < operand_bytes(value.dtype, value.dims))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the value of shape {} for input '{}' needs {} bytes, it has {}", to_string(value.dims),
                              name, operand_bytes(value.dtype, value.dims), value.bytes));
    return set_input(name, value.dims, value.data, value.device);
  }
  Tensor copy = copy_of(value);
  const Graph& graph = impl_->engine->graph;
  if (is_container(value.dtype)) check_elements(copy, graph.type(graph.inputs[i]), fmt::format("input '{}'", name));
  set_input_shape(name, copy.dims());
  impl_->container_inputs[i] = std::move(copy);
  Tensor& kept = impl_->container_inputs[i];
  impl_->set_memory(i, {const_cast<std::byte*>(kept.data()), kept.bytes(), DeviceId::host});
}

void Context::bind_output(const std::string& name, void* data, size_t bytes, DeviceId device) {
  const size_t o = impl_->output_index(name);
  impl_->check_memory(fmt::format("output '{}'", name), impl_->engine->outputs[o], data, device);
  impl_->memory.outputs[o] = {static_cast<std::byte*>(data), data ? bytes : 0, device};
  impl_->may_overlap = true;
}

std::vector<int64_t> Context::output_shape(const std::string& name) {
  const size_t o = impl_->output_index(name);
  const BoundPlan& bound = impl_->bind();
  const int32_t id = impl_->engine->plan.outputs[o];
  if (!bound.known(id))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the shape of output '{}' depends on the data; ask output() after the run", name));
  return bound.dims(id);
}

std::vector<int64_t> Context::largest_output_shape(const std::string& name) {
  const size_t o = impl_->output_index(name);
  const BoundPlan& bound = impl_->bind();
  const int32_t id = impl_->engine->plan.outputs[o];
  if (bound.known(id)) return bound.dims(id);
  const Graph& graph = impl_->engine->graph;
  const ops::SizeBounds bounds(graph, bound.symbols());
  std::vector<int64_t> dims;
  if (const TensorType& type = graph.type(graph.outputs[o]); !is_container(type.dtype))
    for (const Dim& size : type.shape) {
      const auto most = bounds.of(size);
      if (!most)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("nothing bounds the shape of output '{}', which depends on the data: {}", name,
                                to_string(type)));
      dims.push_back(*most);
    }
  return dims;
}

void Context::run() {
  impl_->run();
}

void Context::enqueue(void* stream) {
  impl_->check_has_gpu("enqueue()");
  impl_->executor.queue()->check_stream(stream);
  impl_->run({stream, false});
}

void Context::start() {
  impl_->check_has_gpu("start()");
  impl_->run({{}, false});
}

void Context::copy(std::byte* to, DeviceId to_device, const std::byte* from, DeviceId from_device, size_t bytes) {
  const auto check_device = [&](DeviceId device, const std::byte* memory, const char* what) {
    if (device.is_gpu() && device != impl_->engine->backend->device().id)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} is said to be on {}; this engine runs on {}", what, to_string(device),
                              to_string(impl_->engine->backend->device().id)));
    if (bytes > 0 && impl_->executor.queue()) impl_->executor.queue()->check_memory(memory, device, what);
  };
  check_device(to_device, to, "the destination of a copy");
  check_device(from_device, from, "the source of a copy");
  impl_->executor.copy(to, to_device, {from, bytes}, from_device);
}

void Context::synchronize() {
  impl_->executor.wait_for_runs();
}

void Context::synchronize_previous() {
  impl_->executor.wait_for_previous();
}

void Context::run_async(std::function<void(std::exception_ptr)> completion) {
  impl_->start_async(std::move(completion));
}

void Context::set_cancellation(Cancellation cancellation) {
  impl_->executor.cancellation = std::move(cancellation);
}

void Context::set_communicator(std::shared_ptr<Communicator> communicator) {
  const int64_t ranks = impl_->shared->ranks;
  if (communicator && communicator->size() != ranks)
    throw Error(ErrorCode::invalid_argument,
                ranks == 0 ? std::string("the engine has no collectives: it takes no communicator")
                           : fmt::format("the communicator is of {} ranks, the engine is one of {}",
                                         communicator->size(), ranks));
  impl_->forget_recordings();
  impl_->communicator = std::move(communicator);
}

void Context::rehearse() {
  impl_->rehearses = true;
}

TensorView Context::output(const std::string& name) const {
  const size_t o = impl_->output_index(name);
  if (!impl_->has_run)
    throw Error(ErrorCode::invalid_argument, fmt::format("output '{}' has no data yet: run the context first", name));
  return impl_->executor.output(o);
}

void Context::set_profiler(Profiler* profiler) {
  impl_->executor.profiler = profiler;
}

void Context::set_tap(const std::string& tensor, std::function<void(const TensorView&)> tap) {
  if (!tap) return set_parallel_tap(tensor, {});
  set_parallel_tap(tensor, [tap = std::move(tap)](const TensorView& view, ThreadPool&) { tap(view); });
}

void Context::set_parallel_tap(const std::string& tensor, std::function<void(const TensorView&, ThreadPool&)> tap) {
  const Plan& plan = impl_->engine->plan;
  int32_t value = -1;
  for (size_t v = 0; v < plan.values.size() && value < 0; ++v)
    if (plan.values[v].name == tensor && plan.values[v].storage != Storage::none) value = static_cast<int32_t>(v);
  for (size_t o = 0; o < plan.outputs.size() && value < 0; ++o)
    if (plan.output_names[o] == tensor) value = plan.outputs[o];
  if (value >= 0) {
    if (tap) {
      impl_->executor.taps[value] = std::move(tap);
    } else {
      impl_->executor.taps.erase(value);
    }
    return;
  }
  throw Error(ErrorCode::invalid_argument, fmt::format("the plan has no tensor '{}': it was fused away or never "
                                                       "existed. Name it in the option debug-tensors to keep it",
                                                       tensor));
}

size_t Context::memory_bytes() const {
  return impl_->memory_bytes();
}

}  // namespace camshaft
