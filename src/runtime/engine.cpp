#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/available_cores.h"
#include "compile/lower.h"
#include "compile/plan/aliased_inputs.h"
#include "compile/plan/bound_plan.h"
#include "compile/plan/place_values.h"
#include "engine/damaged.h"
#include "engine/engine_file.h"
#include "ir/ops/collective.h"
#include "ir/symbols.h"
#include "reference/evaluate.h"
#include "runtime/backends.h"
#include "runtime/context_impl.h"
#include "runtime/engine_impl.h"
#include "runtime/step_weights.h"
#include "runtime/streamed_weights.h"

namespace camshaft {

namespace {

TensorInfo describe(const std::string& name, const TensorType& type) {
  TensorInfo info;
  info.name = name;
  info.dtype = type.dtype;
  info.type = to_string(type);
  for (const Dim& d : type.shape) {
    info.dims.push_back(d.as_constant().value_or(-1));
    info.dim_names.push_back(d.str());
  }
  return info;
}

const Value& input_value(const Graph& graph, const std::string& name) {
  std::string known;
  for (const ValueId id : graph.inputs) {
    if (graph.value(id).name == name) return graph.value(id);
    known += (known.empty() ? "" : ", ") + graph.value(id).name;
  }
  throw Error(ErrorCode::invalid_argument, fmt::format("no input is named '{}'; the inputs are: {}", name, known));
}

}  // namespace

void Engine::Impl::finish(bool defers_weights) {
  tactics.assign(graph.nodes.size(), {});
  for (const PlanStep& step : plan.steps)
    if (step.node >= 0) tactics[static_cast<size_t>(step.node)] = {step.tactic, step.further_tactics};
  describe_borders();
  const std::vector<int32_t> aliased = aliased_inputs(plan);
  for (size_t o = 0; o < outputs.size(); ++o)
    if (aliased[o] >= 0) outputs[o].aliased_input = inputs[static_cast<size_t>(aliased[o])].name;
  if (defers_weights) return;
  if (const auto queue = backend->make_queue()) upload_constants(plan, *queue);
}

void Engine::Impl::describe_borders() {
  for (const ValueId id : graph.inputs) inputs.push_back(describe(graph.value(id).name, graph.type(id)));
  for (size_t o = 0; o < graph.outputs.size(); ++o)
    outputs.push_back(describe(graph.output_names[o], graph.type(graph.outputs[o])));
}

Engine::Shared::Shared(std::shared_ptr<const Impl> impl)
    : inputs(impl->inputs),
      outputs(impl->outputs),
      profiles(impl->profiles),
      metadata(impl->metadata),
      ranks(ops::ranks_of(impl->graph)),
      current_(std::move(impl)) {}

std::shared_ptr<const Engine::Impl> Engine::Shared::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

void Engine::Shared::replace(const std::shared_ptr<const Impl>& before, std::shared_ptr<const Impl> impl) {
  const std::lock_guard lock(mutex_);
  if (current_ != before) throw Error(ErrorCode::internal, "the weights were replaced by somebody else");
  current_.swap(impl);
}

Engine::Engine(std::shared_ptr<const Impl> impl) : shared_(std::make_shared<Shared>(std::move(impl))) {}

std::shared_ptr<const Engine::Impl> Engine::impl() const {
  return shared_->current();
}

bool Engine::is_refittable() const {
  return impl()->initializers.has_value();
}

namespace {

// The symbols that one bound of a profile's ranges gives; expressions are checked where all of their symbols are named.
SymbolBindings bind_ranges(const Graph& graph, const Profile& profile, std::vector<int64_t> ShapeRange::*bound) {
  SymbolBindings symbols;
  for (const auto& [name, range] : profile.inputs) {
    const Shape& shape = input_value(graph, name).type.shape;
    const Dims& dims = range.*bound;
    if (dims.size() != shape.size())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the profile of input '{}' has shape {}, but the input has {} dimensions", name,
                              to_string(dims), shape.size()));
    for (size_t d = 0; d < shape.size(); ++d)
      if (const auto symbol = shape[d].as_symbol()) symbols.emplace(*symbol, dims[d]);
  }
  for (const auto& [name, range] : profile.inputs) {
    const Shape& shape = input_value(graph, name).type.shape;
    Shape known;
    Dims sizes;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (!is_bound({shape[d]}, symbols)) continue;
      known.push_back(shape[d]);
      sizes.push_back((range.*bound)[d]);
    }
    bind_symbols(known, sizes, fmt::format("the profile of input '{}'", name), symbols);
  }
  return symbols;
}

}  // namespace

void check_profile(const Graph& graph, const Profile& profile) {
  for (const auto bound : {&ShapeRange::min, &ShapeRange::opt, &ShapeRange::max}) bind_ranges(graph, profile, bound);
  for (const auto& [name, range] : profile.inputs)
    for (size_t i = 0; i < range.opt.size(); ++i)
      if (range.min[i] > range.opt[i] || range.opt[i] > range.max[i] || range.min[i] < 0)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("the profile of input '{}' is not min <= opt <= max in dimension {}: {}, {}, {}", name,
                                i, range.min[i], range.opt[i], range.max[i]));
}

SymbolBindings bind_profile(const Graph& graph, const Profile& profile) {
  return bind_ranges(graph, profile, &ShapeRange::opt);
}

std::vector<SymbolBindings> bind_further_profiles(const Graph& graph, const std::vector<Profile>& profiles) {
  std::vector<SymbolBindings> bound;
  for (size_t p = 1; p < profiles.size(); ++p) bound.push_back(bind_profile(graph, profiles[p]));
  return bound;
}

Engine Engine::load(const std::string& path, const LoadOptions& options) {
  return load_engine(MappedFile::open_with_descriptor(path), options);
}

namespace {

// The initializers that a file without weights is without.
std::set<std::string> left_out(const Engine::Impl& engine) {
  std::set<std::string> replaceable;
  if (engine.saves_stripped && engine.initializers)
    for (const InitializerRecord& record : *engine.initializers)
      if (record.fixed_by.empty()) replaceable.insert(record.name);
  return replaceable;
}

EngineFile stored(const Engine::Impl& engine) {
  EngineFile file;
  file.device_kind = engine.backend->device().kind;
  file.graph = engine.graph;
  file.tactics = engine.tactics;
  file.profiles = engine.profiles;
  file.optimum = engine.optimum;
  file.metadata = engine.metadata;
  file.explanations = engine.explanations;
  file.initializers = engine.initializers;
  file.keep = kept_constants(engine);
  file.left_out = left_out(engine);
  file.packed = std::make_shared<PackedConstants>();
  std::set<std::string> stripped;
  for (size_t v = 0; v < file.keep.size(); ++v)
    if (file.keep[v] == Keep::nothing) stripped.insert(engine.graph.values[v].name);
  std::map<std::string, bool> comes_back;
  for (const PackedConstant* p : engine.packed->all()) {
    if (stripped.contains(p->constant)) continue;
    file.packed->add(*p);
    comes_back[p->constant] |= p->layout == fallback_layout || engine.backend->can_unpack(p->layout);
  }
  for (size_t v = 0; v < file.keep.size(); ++v) {
    const Value& value = engine.graph.values[v];
    if (file.keep[v] == Keep::packed_only && !value.constant->is_elided() && !comes_back[value.name])
      file.packed->add({value.name, std::string(fallback_layout), value.constant->span(), value.constant->owner()});
  }
  return file;
}

void check_has_weights(const Engine::Impl& engine) {
  if (engine.lacks_weights)
    throw Error(ErrorCode::invalid_argument,
                "the engine has no weights (it was built with strip-weights): refit it before it gets a weight budget");
}

// The stream that a budget needs; null: all weights fit. Sets the engine's budget, and places what a device reads.
void set_budget(Engine::Impl& engine, const WeightBudget& wanted) {
  engine.stream = nullptr;
  engine.weight_budget = -1;
  if (wanted.is_none()) return;
  const StreamableWeights weights(engine);
  engine.weight_budget = wanted.bytes(weights.weight_bytes(), weights.automatic_budget());
  engine.stream = weights.make_stream(engine.weight_budget, engine.plan);
}

bool is_on_host(const Backend& backend) {
  return backend.device().id.is_host();
}

// An engine for a device, compiled again, with a budget for the weights that it reads there.
std::shared_ptr<Engine::Impl> with_device_budget(const Engine::Impl& before, const WeightBudget& budget) {
  auto after = std::make_shared<Engine::Impl>(before);
  LowerOptions options;
  options.symbols = after->optimum;
  options.further_symbols = bind_further_profiles(after->graph, after->profiles);
  options.tactics = after->tactics;
  options.cores = available_cores();
  options.defers_weights = !budget.is_none();
  after->plan = lower(after->graph, *after->backend, *after->packed, options);
  if (budget.is_none())
    if (const auto queue = after->backend->make_queue()) upload_constants(after->plan, *queue);
  set_budget(*after, budget);
  return after;
}

}  // namespace

Engine load_engine(const std::shared_ptr<const MappedFile>& given, const LoadOptions& where) {
  const WeightBudget budget(where.weight_budget);
  const bool streams = !budget.is_none();
  std::shared_ptr<const MappedFile> mapped = given;
  EngineFile file = read_engine_file(mapped, streams);
  auto impl = std::make_shared<Engine::Impl>();
  impl->backend = find_backend_of_kind(file.device_kind, where.device);
  const bool defers_weights = streams && !is_on_host(*impl->backend);
  if (streams && !defers_weights && given->descriptor() < 0) {
    mapped = MappedFile::in_unnamed_file(given->bytes(), given->path());
    file = read_engine_file(mapped, streams);
  }
  impl->graph = std::move(file.graph);
  impl->packed = std::move(file.packed);
  impl->packed->set_unpack([backend = impl->backend](const PackedConstant& p, DType dtype, const Dims& dims) {
    return backend->unpack(p, dtype, dims);
  });
  impl->profiles = std::move(file.profiles);
  impl->optimum = std::move(file.optimum);
  impl->metadata = std::move(file.metadata);
  impl->explanations = std::move(file.explanations);
  impl->initializers = std::move(file.initializers);
  impl->lacks_weights = file.is_stripped;
  impl->saves_stripped = file.is_stripped;
  impl->storage = std::move(file.storage);
  if (mapped->descriptor() >= 0) impl->file = mapped;
  name_damaged_engine(mapped->path(), [&] {
    for (const Profile& profile : impl->profiles) check_profile(impl->graph, profile);
    if (impl->lacks_weights) {
      impl->tactics = std::move(file.tactics);
      return impl->describe_borders();
    }
    LowerOptions options;
    options.symbols = impl->optimum;
    options.further_symbols = bind_further_profiles(impl->graph, impl->profiles);
    options.tactics = std::move(file.tactics);
    options.defers_weights = defers_weights;
    impl->plan = lower(impl->graph, *impl->backend, *impl->packed, options);
    impl->finish(defers_weights);
  });
  if (streams) {
    check_has_weights(*impl);
    set_budget(*impl, budget);
  }
  return Engine(std::move(impl));
}

void Engine::set_weight_budget(const std::string& text) const {
  const WeightBudget budget(text);
  const std::lock_guard lock(shared_->refit_mutex);
  const std::shared_ptr<const Impl> before = impl();
  if (budget.is_none() && !before->stream && before->weight_budget < 0) return;
  check_has_weights(*before);
  if (!is_on_host(*before->backend)) {
    std::shared_ptr<const Impl> after = with_device_budget(*before, budget);
    if (before->stream) before->stream->close();
    return shared_->replace(before, std::move(after));
  }
  std::shared_ptr<const Impl> held = before;
  if (!before->file) {
    Impl whole(*before);
    whole.saves_stripped = false;
    const std::vector<std::byte> bytes = engine_file_bytes(stored(whole));
    held = load_engine(MappedFile::in_unnamed_file(bytes, "the weights of an engine"), {}).impl();
  }
  if (!budget.is_none()) {
    const StreamableWeights weights(*held);
    const int64_t bytes = budget.bytes(weights.weight_bytes(), weights.automatic_budget());
    if (!weights.fits(bytes)) weights.plan(bytes);  // which throws before anything is changed
  }
  auto after = std::make_shared<Impl>(*held);
  after->saves_stripped = before->saves_stripped;
  if (before->stream) before->stream->close();  // one at a time moves parts of a file
  set_budget(*after, budget);
  shared_->replace(before, std::move(after));
}

WeightStreaming Engine::weight_streaming() const {
  return describe_streaming(*impl());
}

// Weights that kernels hold in packed form are stored in that form alone, or are a fallback where it does not give them
// back.
std::vector<Keep> kept_constants(const Engine::Impl& engine) {
  const std::vector<Value>& values = engine.graph.values;
  std::vector<Keep> keep(values.size(), Keep::bytes);
  std::set<std::string> packed;
  for (const PackedConstant* p : engine.packed->all()) packed.insert(p->constant);
  for (size_t v = 0; v < keep.size(); ++v)
    if (values[v].constant && packed.contains(values[v].name)) keep[v] = Keep::packed_only;
  for (const PlanStep& step : engine.plan.steps)
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (step.inputs[i] >= 0 && step.kernel->reads_input(i)) {
        int32_t read = engine.plan.root(step.inputs[i]);
        while (engine.plan.values[static_cast<size_t>(read)].copy_of >= 0)
          read = engine.plan.values[static_cast<size_t>(read)].copy_of;
        const auto root = static_cast<size_t>(read);
        if (root < keep.size()) keep[root] = Keep::bytes;
      }
  if (const std::set<std::string> replaceable = left_out(engine); !replaceable.empty()) {
    for (size_t v = 0; v < keep.size(); ++v) {
      if (!values[v].constant || !values[v].provenance) continue;
      for (const std::string& name : initializer_names(*values[v].provenance))
        if (replaceable.contains(name)) keep[v] = Keep::nothing;
    }
  }
  return keep;
}

void Engine::save(const std::string& path) const {
  const std::shared_ptr<const Impl> now = impl();
  write_engine_file(path, stored(*now));
}

std::vector<std::byte> engine_bytes(const Engine& engine) {
  const std::shared_ptr<const Engine::Impl> now = engine.impl();
  return engine_file_bytes(stored(*now));
}

std::vector<std::byte> engine_bytes_with(const Engine& engine, bool weights) {
  const std::shared_ptr<const Engine::Impl> now = engine.impl();
  if (weights && now->lacks_weights)
    throw Error(ErrorCode::invalid_argument,
                "the engine has no weights (it was built with strip-weights): refit it before it is saved with them");
  if (!weights && !now->initializers)
    throw Error(ErrorCode::invalid_argument,
                "the engine was not built to be refitted (refit): nothing could bring back weights that are left out");
  Engine::Impl saved(*now);
  saved.saves_stripped = !weights;
  return engine_file_bytes(stored(saved));
}

const std::vector<TensorInfo>& Engine::inputs() const {
  return shared_->inputs;
}
const std::vector<TensorInfo>& Engine::outputs() const {
  return shared_->outputs;
}
const std::vector<Profile>& Engine::profiles() const {
  return shared_->profiles;
}
const std::map<std::string, std::string>& Engine::metadata() const {
  return shared_->metadata;
}

DeviceId Engine::device() const {
  return impl()->backend->device().id;
}

namespace {

/// For each step of a plan the steps that computed what it reads, also through views of it.
class ReadSteps {
 public:
  explicit ReadSteps(const Plan& plan) : plan_(plan), writer_(plan.values.size(), -1), writers_(plan.values.size()) {
    for (size_t s = 0; s < plan.steps.size(); ++s)
      for (const int32_t id : plan.steps[s].outputs) {
        if (id < 0) continue;
        writer_[static_cast<size_t>(id)] = static_cast<int64_t>(s);
        writers_[static_cast<size_t>(plan.root(id))].push_back(static_cast<int64_t>(s));
      }
  }

  std::vector<int64_t> of(const PlanStep& step) const {
    std::set<int64_t> read;
    for (const int32_t id : step.inputs)
      if (id >= 0) add(id, read);
    return {read.begin(), read.end()};
  }

 private:
  void add(int32_t id, std::set<int64_t>& read) const {
    for (;;) {
      const auto v = static_cast<size_t>(id);
      if (writer_[v] >= 0) {
        read.insert(writer_[v]);
        return;
      }
      const PlanValue& value = plan_.values[v];
      if (value.storage != Storage::alias && value.storage != Storage::slice) {  // written part by part, or not at all
        read.insert(writers_[v].begin(), writers_[v].end());
        return;
      }
      id = value.index;
    }
  }

  const Plan& plan_;
  std::vector<int64_t> writer_;                // of each value
  std::vector<std::vector<int64_t>> writers_;  // of each root, or of parts of it
};

int64_t offset_in(const MappedFile* file, const std::byte* data) {
  return file && data >= file->data() && data < file->data() + file->size() ? data - file->data() : -1;
}

}  // namespace

std::vector<LayerInfo> Engine::layers() const {
  const std::shared_ptr<const Impl> now = impl();
  const Plan& plan = now->plan;
  const auto names = [&](const std::vector<int32_t>& ids) {
    std::vector<std::string> list;
    for (const int32_t id : ids)
      if (id >= 0)
        list.push_back(fmt::format("{}: {}", plan.values[static_cast<size_t>(id)].name,
                                   to_string(plan.values[static_cast<size_t>(id)].type)));
    return list;
  };
  const ReadSteps reads(plan);
  const std::vector<std::vector<StepWeight>> weights = step_weights(plan, now->graph);
  std::vector<LayerInfo> layers;
  for (const PlanStep& step : plan.steps) {
    layers.push_back({step.name,
                      step.op,
                      step.tactic,
                      step.description,
                      names(step.inputs),
                      names(step.outputs),
                      step.sources,
                      {},
                      {},
                      step.is_invariant,
                      reads.of(step),
                      {}});
    LayerInfo& layer = layers.back();
    for (const StepWeight& weight : weights[layers.size() - 1])
      layer.weights.push_back({weight.constant, weight.layout, static_cast<int64_t>(weight.bytes.size()),
                               offset_in(now->file.get(), weight.bytes.data())});
    if (now->stream)
      for (const uint32_t block : now->stream->blocks().steps[layers.size() - 1])
        if (!now->stream->plan().stays[block])
          layer.streamed_bytes += static_cast<int64_t>(now->stream->blocks().block_bytes);
    if (step.node < 0 || now->explanations.empty()) continue;
    const LayerExplanation& explanation = now->explanations[static_cast<size_t>(step.node)];
    layers.back().tried = explanation.tried;
    layers.back().notes = explanation.notes;
  }
  return layers;
}

std::vector<std::string> Engine::tensor_names() const {
  const std::shared_ptr<const Impl> now = impl();
  std::vector<std::string> names;
  for (const PlanValue& value : now->plan.values)
    if (value.storage != Storage::none) names.push_back(value.name);
  for (const std::string& output : now->plan.output_names)
    if (std::find(names.begin(), names.end(), output) == names.end()) names.push_back(output);
  return names;
}

size_t Engine::Impl::weight_bytes() const {
  size_t bytes = packed->total_bytes();
  for (const Value& value : graph.values)
    if (value.constant && !value.constant->is_elided()) bytes += value.constant->bytes();
  return bytes;
}

namespace {

/// As the engine's file has them: one that was just built also holds the plain form of what kernels read packed.
size_t stored_weight_bytes(const Engine::Impl& engine) {
  std::set<std::string> packed;
  for (const PackedConstant* p : engine.packed->all())
    if (p->layout == fallback_layout || engine.backend->can_unpack(p->layout)) packed.insert(p->constant);
  const std::vector<Keep> keep = kept_constants(engine);
  size_t bytes = engine.packed->total_bytes();
  for (size_t v = 0; v < keep.size(); ++v) {
    const Value& value = engine.graph.values[v];
    if (!value.constant || value.constant->is_elided()) continue;
    if (keep[v] == Keep::bytes || !packed.contains(value.name)) bytes += value.constant->bytes();
  }
  return bytes;
}

MemoryInfo memory_of(const Engine::Impl& engine) {
  MemoryInfo info;
  info.weight_bytes = static_cast<int64_t>(stored_weight_bytes(engine));
  // Sizes that no profile names: 1 along the first axis, then the first size that the model accepts.
  for (const int64_t fallback : {64, 32, 16, 128, 224, 8, 1}) {
    try {
      const BoundPlan bound(engine.plan, assume_sizes(engine.graph, engine.optimum, fallback), 1);
      for (const DeviceId device : engine.plan.devices()) {
        info.arena_bytes += bound.arena_bytes(device);
        info.arena_lower_bound += bound.arena_lower_bound(device);
      }
      info.kept_bytes = bound.kept_bytes();
      return info;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::invalid_argument) throw;
    }
  }
  return info;
}

}  // namespace

int64_t Engine::Impl::arena_bytes() const {
  return memory_of(*this).arena_bytes;
}

MemoryInfo Engine::memory() const {
  return memory_of(*impl());
}

Context Engine::create_context(const ContextOptions& options) const {
  if (options.threads < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a context cannot have {} threads; give 1 or more, or 0 for one a core", options.threads));
  if (impl()->lacks_weights)
    throw Error(ErrorCode::invalid_argument,
                "the engine has no weights (it was built with strip-weights): refit it before it runs");
  return Context(std::make_unique<Context::Impl>(shared_, options));
}

}  // namespace camshaft
