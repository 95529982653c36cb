#include "compile/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/format_bytes.h"
#include "base/log.h"
#include "base/parallel.h"
#include "compile/layer_name.h"
#include "compile/plan/branch_kernel.h"
#include "compile/plan/invariant_steps.h"
#include "compile/plan/place_slices.h"
#include "compile/plan/place_values.h"
#include "compile/plan/sized_kernel.h"
#include "ir/ops/control_flow.h"
#include "ir/ops/move.h"
#include "ir/ops/region.h"
#include "ir/symbols.h"

namespace camshaft {

namespace {

class CopyLaunch final : public Launch {
 public:
  explicit CopyLaunch(size_t bytes) : bytes_(bytes) {}
  void run(const LaunchArguments& arguments) override {
    if (bytes_ > 0) std::memcpy(arguments.outputs[0], arguments.inputs[0], bytes_);
  }

 private:
  size_t bytes_;
};

/// For graph outputs that are an input, a constant, or another output too.
class CopyKernel final : public Kernel {
 public:
  explicit CopyKernel(DType dtype) : objects_(holds_objects(dtype)) {}
  bool has_dynamic_outputs() const override { return objects_; }
  std::vector<Tensor> run_dynamic(const std::vector<Tensor>& inputs, const SymbolBindings&, ThreadPool&,
                                  const Cancellation*) const override {
    return {inputs[0].copy()};
  }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<CopyLaunch>(byte_size(shapes.inputs[0].dtype, element_count(shapes.inputs[0].dims)));
  }

 private:
  bool objects_;
};

std::string describe(const Node& node) {
  const auto* region = node.op.as<ops::Region>();
  if (!region || node.bodies.empty()) return to_string(node.op);
  std::string out;
  for (const Node& inner : node.bodies[0].nodes) out += (out.empty() ? "" : " → ") + describe(inner);
  return out;
}

std::string kind_of(const Node& node) {
  const auto* region = node.op.as<ops::Region>();
  if (!region) return std::string(node.op.name());
  if (region->kind == ops::RegionKind::contract && !node.bodies.empty() && !node.bodies[0].nodes.empty())
    return std::string(node.bodies[0].nodes.front().op.name());
  return std::string(EnumNames<ops::RegionKind>::values[static_cast<size_t>(region->kind)]);
}

class Lowering {
 public:
  Lowering(const Graph& graph, const Backend& backend, PackedConstants& constants, const LowerOptions& options)
      : graph_(graph), backend_(backend), constants_(constants), options_(options), input_symbols_(options.bound) {
    symbols_.push_back(assume_sizes(graph, options.symbols));
    for (const SymbolBindings& further : options.further_symbols) symbols_.push_back(assume_sizes(graph, further));
  }

  Plan run() {
    make_values();
    compile_recorded();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      options_.cancellation.check("choosing tactics");
      add_node(n);
    }
    say_what_is_missing();
    compile_for_device();
    place_slices(plan_, graph_, symbols_.front());
    add_outputs();
    if (plan_.devices() != std::vector{DeviceId::host}) place_values(plan_);
    set_lifetimes();
    mark_invariant_steps();
    set_in_place();
    return std::move(plan_);
  }

 private:
  PlanValue& value(int32_t id) { return plan_.values[static_cast<size_t>(id)]; }

  void make_values() {
    plan_.values.reserve(graph_.values.size() + graph_.outputs.size());
    for (const Value& v : graph_.values) {
      PlanValue p;
      p.name = v.name;
      p.type = v.type;
      if (v.constant) {
        p.storage = Storage::constant;
        p.constant = v.constant;
      }
      plan_.values.push_back(std::move(p));
    }
    std::vector<std::string> names;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const ValueId id = graph_.inputs[i];
      value(id).storage = Storage::input;
      value(id).index = static_cast<int32_t>(i);
      plan_.inputs.push_back(id);
      plan_.input_names.push_back(value(id).name);
      for (const Dim& d : graph_.shape(id)) d.collect_symbols(names);
    }
    input_symbols_.insert(names.begin(), names.end());
  }

  bool known_before_running(const TensorType& type) const {
    return all_symbols(type.shape, [&](const std::string& name) { return input_symbols_.contains(name); });
  }

  bool is_known_before_running(const Node& node) const {
    std::vector<std::string> late;
    collect_late_symbols(node, late);
    // A value of known size may still be allocated when running, beside one whose size is not known.
    const auto is_static = [&](ValueId id) {
      return id == no_value || plan_.values[static_cast<size_t>(plan_.root(id))].storage != Storage::dynamic;
    };
    const auto is_known = [&](ValueId id) { return id == no_value || known_before_running(graph_.type(id)); };
    return late.empty() && std::all_of(node.inputs.begin(), node.inputs.end(), is_known) &&
           std::all_of(node.inputs.begin(), node.inputs.end(), is_static) &&
           std::all_of(node.outputs.begin(), node.outputs.end(), is_known);
  }

  // Sizes that a field names need not be those of any operand: a tensor of dims has a shape of its own.
  void collect_late_symbols(const Node& node, std::vector<std::string>& late) const {
    std::vector<std::string> names;
    for (const auto& [name, field] : node.op.fields()) {
      if (const auto* dim = std::get_if<Dim>(&field)) dim->collect_symbols(names);
      if (const auto* shape = std::get_if<Shape>(&field))
        for (const Dim& d : *shape) d.collect_symbols(names);
    }
    for (std::string& n : names)
      if (input_symbols_.count(n) == 0) late.push_back(std::move(n));
    if (node.op.as<ops::Region>())
      for (const Node& inner : node.bodies.at(0).nodes) collect_late_symbols(inner, late);
  }

  Tactic choose(const RegionView& region, const std::string& recorded) {
    // Values whose sizes only running tells are allocated then, on the host.
    const bool host_only = options_.host_only || !is_known_before_running(region.node);
    const auto may_run = [&](const Tactic& tactic) { return !host_only || tactic.place == Place::host; };
    if (!recorded.empty()) {
      std::optional<Tactic> tactic = backend_.find_tactic(region, recorded);
      if (!tactic) missing_.push_back(recorded);
      if (tactic && may_run(*tactic)) return *std::move(tactic);
    }
    for (Tactic& tactic : backend_.tactics(region))
      if (may_run(tactic) && tactic.deviation <= options_.most_deviation) return std::move(tactic);
    throw Error(ErrorCode::internal, "a region has no exact tactic");
  }

  /// The different tactics of a layer, and which of them each profile has; one for all where `of_profile` is empty.
  struct LayerTactics {
    std::vector<Tactic> list;
    std::vector<size_t> of_profile;
  };

  // What further profiles have of their own is used where it runs in the same place as the first one's.
  LayerTactics with_further(const Node& node, Tactic first, const std::vector<std::string>& recorded,
                            PlanStep& step) const {
    LayerTactics tactics{{std::move(first)}, {}};
    const size_t profiles = symbols_.size() - 1;
    for (size_t p = 0; p < std::min(profiles, recorded.size()); ++p) {
      if (recorded[p].empty() || recorded[p] == step.tactic) continue;
      std::optional<Tactic> tactic = backend_.find_tactic({graph_, node, symbols_[p + 1]}, recorded[p]);
      if (!tactic || tactic->place != tactics.list[0].place || tactic->deviation > options_.most_deviation) continue;
      tactics.of_profile.resize(profiles + 1, 0);
      size_t k = 1;
      while (k < tactics.list.size() && tactics.list[k].str() != recorded[p]) ++k;
      if (k == tactics.list.size()) tactics.list.push_back(*std::move(tactic));
      tactics.of_profile[p + 1] = k;
      step.further_tactics.resize(profiles);
      step.further_tactics[p] = recorded[p];
      step.deviation = std::max(step.deviation, tactics.list[k].deviation);
      step.moves_steps = step.moves_steps || tactics.list[k].moves_steps;
    }
    return tactics;
  }

  void say_what_is_missing() const {
    if (missing_.empty()) return;
    const std::set<std::string> kinds(missing_.begin(), missing_.end());
    log_warning(
        fmt::format("{} of {} layers were built for kernels that this machine, or this version, does not have "
                    "({}{}); others run instead",
                    missing_.size(), graph_.nodes.size(), *kinds.begin(), kinds.size() > 1 ? ", …" : ""));
  }

  void add_node(size_t n) {
    const Node& node = graph_.nodes[n];
    if (is_view(node)) {
      PlanValue& out = value(node.outputs[0]);
      out.storage = Storage::alias;
      out.index = node.inputs[0];
      return;
    }
    PlanStep step;
    step.node = static_cast<int32_t>(n);
    step.name = graph_.value(node.outputs[0]).name;
    step.op = kind_of(node);
    step.description = describe(node);
    step.sources = node.sources;
    collect_late_symbols(node, step.late_symbols);
    step.inputs.assign(node.inputs.begin(), node.inputs.end());
    step.outputs.assign(node.outputs.begin(), node.outputs.end());
    const RegionView region{graph_, node, symbols_.front()};
    try {
      step.kernel = make_branch_kernel(region, backend_, input_symbols_, options_.cancellation);
      step.tactic = "branches";
      if (!step.kernel) {
        const TacticChoice recorded = n < options_.tactics.size() ? options_.tactics[n] : TacticChoice();
        const Tactic tactic = choose(region, recorded.first);
        step.tactic = tactic.str();
        step.deviation = tactic.deviation;
        step.moves_steps = tactic.moves_steps;
        LayerTactics tactics = with_further(node, tactic, recorded.further, step);
        if (tactic.place == Place::device) {
          step.device = backend_.device().id;
          for_device_.push_back({plan_.steps.size(), std::move(tactics)});
        } else {
          const bool is_ahead = ahead_[n].compiled.kernel && ahead_[n].tactic == step.tactic;
          std::vector<Compiled> compiled;
          compiled.push_back(is_ahead ? std::move(ahead_[n].compiled) : compile(region, tactic));
          compile_further(node, tactics, compiled);
          finish_step(step, tactics, std::move(compiled));
        }
      }
    } catch (const Error& e) {
      rethrow(step, e);
    }
    // Kernels of the device have no dynamic outputs.
    const bool is_static = !step.kernel || !step.kernel->has_dynamic_outputs();
    for (const ValueId id : node.outputs)
      value(id).storage = is_static && known_before_running(graph_.type(id)) ? Storage::arena : Storage::dynamic;
    if (step.kernel) need_inputs(step);
    plan_.steps.push_back(std::move(step));
  }

  struct Compiled {
    std::shared_ptr<const Kernel> kernel;
    std::vector<PackedUse> packed;
    std::vector<DeviceWeights> on_device;
  };

  Compiled compile(const RegionView& region, const Tactic& tactic, std::vector<DeviceWeights> known = {}) {
    PackedUses uses;
    DeviceWeightUses on_device(options_.defers_weights, std::move(known));
    std::shared_ptr<const Kernel> kernel = backend_.compile(region, tactic, constants_);
    return {std::move(kernel), std::move(uses.list), std::move(on_device.list)};
  }

  // Weights on a device are shared with the kernels before: the last one's list has them all.
  void compile_further(const Node& node, const LayerTactics& tactics, std::vector<Compiled>& compiled) {
    for (size_t k = 1; k < tactics.list.size(); ++k) {
      const auto profile = std::find(tactics.of_profile.begin(), tactics.of_profile.end(), k);
      const SymbolBindings& symbols = symbols_[static_cast<size_t>(profile - tactics.of_profile.begin())];
      compiled.push_back(compile(RegionView{graph_, node, symbols}, tactics.list[k], compiled.back().on_device));
    }
  }

  // Puts the kernels of all profiles into a step.
  void finish_step(PlanStep& step, const LayerTactics& tactics, std::vector<Compiled> compiled) const {
    step.kernel = compiled[0].kernel;
    step.packed = compiled[0].packed;
    step.on_device = compiled[0].on_device;
    if (compiled.size() == 1) return;
    if (std::any_of(compiled.begin(), compiled.end(),
                    [](const Compiled& c) { return c.kernel->has_dynamic_outputs(); })) {
      step.further_tactics.clear();
      return;
    }
    std::vector<SizedChoice> choices;
    for (size_t p = 0; p < symbols_.size(); ++p)
      choices.push_back({symbols_[p], compiled[tactics.of_profile[p]].kernel});
    step.on_device = std::move(compiled.back().on_device);
    for (size_t k = 1; k < compiled.size(); ++k)
      for (PackedUse& use : compiled[k].packed)
        if (std::none_of(step.packed.begin(), step.packed.end(), [&](const PackedUse& known) {
              return known.constant == use.constant && known.layout == use.layout;
            }))
          step.packed.push_back(std::move(use));
    const Node& node = graph_.nodes[static_cast<size_t>(step.node)];
    std::vector<std::string> names;
    for (const auto* ids : {&node.inputs, &node.outputs})
      for (const ValueId id : *ids)
        if (id != no_value)
          for (const Dim& d : graph_.shape(id)) d.collect_symbols(names);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    step.kernel = make_sized_kernel(std::move(choices), std::move(names));
  }

  // Whether a recorded tactic may run is settled in order; nearly all may.
  void compile_recorded() {
    ahead_.resize(graph_.nodes.size());
    const size_t count = std::min(ahead_.size(), options_.tactics.size());
    if (options_.cores < 2) return;
    for_each_parallel(options_.cores, count, [&](size_t n) {
      const Node& node = graph_.nodes[n];
      if (is_view(node) || is_conditional(node) || options_.tactics[n].first.empty()) return;
      options_.cancellation.check("compiling kernels");
      const RegionView region{graph_, node, symbols_.front()};
      try {
        const std::optional<Tactic> tactic = backend_.find_tactic(region, options_.tactics[n].first);
        if (!tactic || tactic->place == Place::device) return;
        ahead_[n] = {tactic->str(), compile(region, *tactic)};
      } catch (const Error&) {  // add_node() meets it again, and names the layer
      }
    });
  }

  [[noreturn]] static void rethrow(const PlanStep& step, const Error& e) {
    throw Error(e.code(), fmt::format("{}: {}", layer_name(step.name, step.sources), e.what()));
  }

  /// A kernel for a device is a text that takes its compiler up to a second: all cores work on them.
  void compile_for_device() {
    for_each_parallel(std::max(1, backend_.device().cores), for_device_.size(), [&](size_t i) {
      options_.cancellation.check("compiling kernels");
      const ForDevice& layer = for_device_[i];
      PlanStep& step = plan_.steps[layer.step];
      const Node& node = graph_.nodes[static_cast<size_t>(step.node)];
      try {
        std::vector<Compiled> compiled;
        compiled.push_back(compile(RegionView{graph_, node, symbols_.front()}, layer.tactics.list[0]));
        compile_further(node, layer.tactics, compiled);
        finish_step(step, layer.tactics, std::move(compiled));
      } catch (const Error& e) {
        rethrow(step, e);
      }
    });
    for (const ForDevice& layer : for_device_) need_inputs(plan_.steps[layer.step]);
  }

  void need_inputs(const PlanStep& step) {
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (step.inputs[i] != no_value && step.kernel->reads_input(i)) need_bytes(step.inputs[i]);
  }

  /// Somebody reads this value's bytes: a constant that is there only in packed form is unpacked.
  void need_bytes(int32_t id) {
    PlanValue& operand = value(plan_.root(id));
    if (operand.constant && operand.constant->is_elided())
      operand.constant = std::make_shared<const Tensor>(constants_.unpack(operand.name, *operand.constant));
  }

  void add_outputs() {
    for (size_t o = 0; o < graph_.outputs.size(); ++o) {
      const ValueId id = graph_.outputs[o];
      const int32_t root = plan_.root(id);
      plan_.output_names.push_back(graph_.output_names[o]);
      PlanValue& r = value(root);
      if (r.storage == Storage::dynamic) {
        plan_.outputs.push_back(id);
        continue;
      }
      if (r.storage == Storage::arena) {
        r.storage = Storage::output;
        r.index = static_cast<int32_t>(o);
        plan_.outputs.push_back(id);
        continue;
      }
      need_bytes(id);
      PlanValue copy;
      copy.name = graph_.output_names[o];
      copy.type = graph_.type(id);
      const auto kernel = std::make_shared<const CopyKernel>(copy.type.dtype);
      copy.storage = kernel->has_dynamic_outputs() ? Storage::dynamic : Storage::output;
      copy.index = static_cast<int32_t>(o);
      const auto copy_id = static_cast<int32_t>(plan_.values.size());
      plan_.values.push_back(std::move(copy));
      PlanStep step;
      step.name = graph_.output_names[o];
      step.op = step.tactic = step.description = "copy";
      step.kernel = kernel;
      step.inputs = {id};
      step.outputs = {copy_id};
      plan_.steps.push_back(std::move(step));
      plan_.outputs.push_back(copy_id);
    }
  }

  void set_lifetimes() {
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const auto now = static_cast<int32_t>(s);
      // What lies in a concatenation is written before it.
      for (const int32_t output : plan_.steps[s].outputs)
        for (const int32_t id : {output, plan_.root(output)}) {
          value(id).first_step = value(id).first_step < 0 ? now : std::min(value(id).first_step, now);
          value(id).last_step = now;
        }
      for (const int32_t id : plan_.steps[s].inputs)
        if (id >= 0) value(plan_.root(id)).last_step = now;
    }
    for (const int32_t id : plan_.outputs)
      if (value(plan_.root(id)).storage == Storage::dynamic)
        value(plan_.root(id)).last_step = static_cast<int32_t>(plan_.steps.size());
  }

  void mark_invariant_steps() {
    const std::vector<bool> invariant = find_invariant_steps(plan_).steps;
    for (size_t s = 0; s < plan_.steps.size(); ++s) plan_.steps[s].is_invariant = invariant[s];
  }

  // Lies in something larger, or between other things.
  bool is_part(int32_t id) {
    while (value(id).storage == Storage::alias) id = value(id).index;
    return value(id).storage == Storage::slice;
  }

  void set_in_place() {
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlanStep& step = plan_.steps[s];
      if (step.kernel->has_dynamic_outputs()) continue;
      std::set<int32_t> taken;
      for (size_t o = 0; o < step.outputs.size(); ++o) {
        PlanValue& out = value(step.outputs[o]);
        if (out.storage != Storage::arena) continue;
        for (size_t i = 0; i < step.inputs.size(); ++i) {
          if (step.inputs[i] < 0 || !step.kernel->can_run_in_place(i, o)) continue;
          const int32_t root = plan_.root(step.inputs[i]);
          const PlanValue& in = value(root);
          const bool dies_here = in.storage == Storage::arena && in.last_step == static_cast<int32_t>(s);
          const bool once = std::count_if(step.inputs.begin(), step.inputs.end(),
                                          [&](int32_t id) { return id >= 0 && plan_.root(id) == root; }) == 1;
          if (!dies_here || !once || taken.count(root) || value(step.inputs[i]).type != out.type ||
              is_part(step.inputs[i]))
            continue;
          // What may be kept for further runs is not written over.
          if (!step.is_invariant && plan_.steps[static_cast<size_t>(in.first_step)].is_invariant) continue;
          out.in_place_of = root;
          taken.insert(root);
          break;
        }
      }
    }
  }

  const Graph& graph_;
  const Backend& backend_;
  PackedConstants& constants_;
  const LowerOptions& options_;
  std::vector<SymbolBindings> symbols_;  // of each profile; of one that says nothing where there is none
  std::set<std::string, std::less<>> input_symbols_;
  struct Ahead {
    std::string tactic;
    Compiled compiled;
  };
  std::vector<Ahead> ahead_;  // of each node
  Plan plan_;
  std::vector<std::string> missing_;  // recorded tactics that the backend does not have
  struct ForDevice {
    size_t step = 0;
    LayerTactics tactics;
  };
  std::vector<ForDevice> for_device_;  // steps whose kernels are still to be compiled
};

}  // namespace

bool is_view(const Node& node) {
  return node.op.as<ops::Reshape>() != nullptr && node.inputs.size() == 1;
}

bool is_conditional(const Node& node) {
  return node.op.as<ops::If>() != nullptr;
}

SymbolBindings assume_sizes(const Graph& graph, SymbolBindings symbols, int64_t size) {
  std::vector<std::string> expressions;
  for (const ValueId id : graph.inputs) {
    const Shape& shape = graph.shape(id);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      std::vector<std::string> names;
      shape[axis].collect_symbols(names);
      // Several elements show more of a sequence than one.
      const int64_t first = graph.type(id).dtype == DType::sequence ? 3 : 1;
      for (const std::string& n : names) {
        const bool is_expression = n.find_first_of("+-*") != std::string::npos && !symbols.contains(n);
        if (is_expression) expressions.push_back(n);
        symbols.try_emplace(n, axis == 0 ? first : size);
      }
    }
  }
  // Exporters name sizes by expressions of others: "past_sequence_length + sequence_length".
  for (const std::string& n : expressions) {
    try {
      const Dim expression = Dim::parse(n);
      if (is_bound({expression}, symbols) && expression.evaluate(symbols) > 0)
        symbols[n] = expression.evaluate(symbols);
    } catch (const Error&) {  // a name and no more
    }
  }
  return symbols;
}

Plan lower(const Graph& graph, const Backend& backend, PackedConstants& constants, const LowerOptions& options) {
  try {
    return Lowering(graph, backend, constants, options).run();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::out_of_memory) throw;
    size_t bytes = 0;
    for (const Value& value : graph.values)
      if (value.constant && !holds_objects(value.type.dtype))
        bytes += byte_size(value.type.dtype, element_count(value.constant->dims()));
    throw Error(e.code(), fmt::format("{}; the weights of the model take {} in all", e.what(), format_bytes(bytes)));
  }
}

}  // namespace camshaft
