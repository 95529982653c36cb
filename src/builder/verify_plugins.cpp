#include "builder/verify_plugins.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "base/bounded_thread.h"
#include "base/thread_pool.h"
#include "builder/sample_inputs.h"
#include "ir/describe_node.h"
#include "ir/ops/plugin.h"
#include "ir/plugin_detour.h"
#include "ir/symbols.h"
#include "reference/plugin_guards.h"
#include "reference/plugin_run.h"

namespace camshaft {

namespace {

// One around every width of a vector, and some that are multiples of nothing.
constexpr int64_t tails[] = {1, 7, 8, 9, 15, 17, 31, 33, 3, 65, 2, 13};
constexpr int64_t most_elements = int64_t{1} << 20;  // of an operand: a run is to take milliseconds

using Visit = std::function<void(const Graph&, const Node&, const ops::Plugin&)>;

void each_plugin(const Graph& graph, const Visit& visit) {
  for (const Node& node : graph.nodes) {
    if (const auto* op = node.op.as<ops::Plugin>()) visit(graph, node, *op);
    for (const Graph& body : node.bodies) each_plugin(body, visit);
  }
}

/// A node by itself, at fixed sizes.
struct Problem {
  Graph graph;
  Node node;
  std::vector<Tensor> operands;  ///< undefined where they are left out
  std::vector<TensorType> types;
  std::string shapes;
};

/// Nothing where the sizes do not fit each other, or are too large.
std::optional<Problem> problem_of(const Graph& graph, const Node& node, const SymbolBindings& symbols, uint64_t seed) {
  Problem problem{{}, node, {}, {}, {}};
  std::vector<ValueId> inputs;
  std::vector<Dims> given;
  try {
    for (const ValueId id : node.inputs) {
      if (id == no_value || graph.is_constant(id)) {
        inputs.push_back(id == no_value ? no_value : problem.graph.add_constant("c", graph.constant(id)));
        continue;
      }
      Dims dims;
      for (const Dim& d : graph.shape(id)) dims.push_back(d.evaluate(symbols));
      if (std::any_of(dims.begin(), dims.end(), [](int64_t d) { return d < 0; }) || element_count(dims) > most_elements)
        return std::nullopt;
      inputs.push_back(problem.graph.add_input("x", {graph.type(id).dtype, Shape(dims.begin(), dims.end())}));
      problem.shapes += (problem.shapes.empty() ? "" : ", ") + to_string(dims);
      given.push_back(std::move(dims));
    }
    std::vector<std::string> names;
    for (size_t o = 0; o < node.outputs.size(); ++o) names.push_back(fmt::format("y{}", o));
    for (const ValueId id : problem.graph.add_node(node.op, inputs, names))
      problem.types.push_back(problem.graph.type(id));
  } catch (const Error& e) {
    if (e.code() == ErrorCode::cancelled || e.code() == ErrorCode::out_of_memory) throw;
    return std::nullopt;
  }
  const std::vector<Tensor> samples = sample_inputs(problem.graph, given, seed);
  size_t next = 0;
  for (const ValueId id : inputs)
    problem.operands.push_back(id == no_value                  ? Tensor()
                               : problem.graph.is_constant(id) ? *problem.graph.value(id).constant
                                                               : samples[next++]);
  return problem;
}

/// What the model's shape rule said of the results must hold for these sizes.
void check_rule_of(const Graph& graph, const Node& node, const ops::Plugin& op, const SymbolBindings& symbols,
                   const Problem& problem) {
  std::vector<TensorType> inputs, outputs;
  std::vector<bool> present;
  std::vector<std::shared_ptr<const Tensor>> constants;
  for (size_t i = 0; i < problem.operands.size(); ++i) {
    const Tensor& t = problem.operands[i];
    present.push_back(t.defined());
    inputs.push_back(t.defined() ? TensorType{t.dtype(), Shape(t.dims().begin(), t.dims().end())} : TensorType{});
    constants.push_back(graph.is_constant(node.inputs[i]) ? graph.value(node.inputs[i]).constant : nullptr);
  }
  for (const ValueId id : node.outputs) {
    TensorType type = graph.type(id);
    if (is_bound(type.shape, symbols))
      for (Dim& d : type.shape) d = d.evaluate(symbols);
    outputs.push_back(std::move(type));
  }
  check_rule(op, inputs, present, constants, outputs);
}

/// The largest difference as a part of the largest magnitude; infinite where NaN or infinities do not agree, and for
/// integers that differ.
double difference_in_scale(const Tensor& got, const Tensor& wanted) {
  if (got == wanted) return 0;
  if (got.dims() != wanted.dims() || !is_floating(got.dtype())) return HUGE_VAL;
  const std::vector<double> a = got.to_doubles(), b = wanted.to_doubles();
  double scale = 0, most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      return HUGE_VAL;
    }
    scale = std::max(scale, std::abs(b[i]));
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most / (scale > 1e-30 ? scale : 1);
}

class Trial {
 public:
  Trial(const ops::Plugin& op, const PluginVerifyOptions& options, int threads)
      : op_(op),
        options_(options),
        pool_(std::make_shared<ThreadPool>(threads)),
        alone_(std::make_shared<ThreadPool>(1)),
        instance_(op.instance()) {}

  void run(const Problem& problem) {
    ++shapes_;
    const bool has_reference = instance_->has_reference();
    const auto wanted = ran(problem, {has_reference, 0}, has_reference ? pool_ : alone_, std::byte{0xa5});
    std::vector<PluginOperand> inputs, outputs;
    for (const Tensor& t : problem.operands)
      inputs.push_back(t.defined() ? PluginOperand{t.dtype(), t.dims()}
                                   : PluginOperand{DType::f32, {}, nullptr, false});
    for (const Tensor& t : wanted) outputs.push_back({t.dtype(), t.dims()});
    for (const bool on_device : {false, true}) {
      if (on_device ? !runs_on_device(problem) : !instance_->has_host()) continue;
      PluginCall call{inputs, outputs};
      call.device = on_device ? detour_device() : nullptr;
      const size_t tactics = instance_->tactics(call);
      for (call.tactic = 0; call.tactic < tactics; ++call.tactic) {
        options_.cancellation.check("verifying plugins");
        if (instance_->supports(call)) compare(problem, {false, call.tactic, on_device}, wanted);
      }
    }
  }

  std::string summary() const {
    if (on_host_.empty() && on_device_.empty())
      return fmt::format(
          "the plugin {}: its reference evaluation runs on {} {} of shapes; it has a body for GPUs alone",
          op_.operator_name, shapes_, shapes_ == 1 ? "set" : "sets");
    std::vector<std::string> tactics;
    const auto count = [](const std::set<size_t>& all, const char* where) {
      return fmt::format("{} {}{}", all.size(), all.size() == 1 ? "tactic" : "tactics", where);
    };
    if (!on_host_.empty()) tactics.push_back(count(on_host_, ""));
    if (!on_device_.empty()) tactics.push_back(count(on_device_, " on the GPU"));
    return fmt::format("the plugin {}: {} on {} {} of shapes agree with {}, within {:.1e} of the scale",
                       op_.operator_name, fmt::join(tactics, " and "), shapes_, shapes_ == 1 ? "set" : "sets",
                       instance_->has_reference() ? "its reference evaluation" : fmt::format("its own {}", own_run()),
                       worst_);
  }

 private:
  /// What counts as right where there is no reference evaluation.
  const char* own_run() const { return instance_->has_host() ? "run on one thread" : "tactic 0"; }

  // Results have sizes that are known before running there.
  bool runs_on_device(const Problem& problem) const {
    if (options_.device.is_host() || !instance_->has_device() || !detour_device()) return false;
    return std::all_of(problem.types.begin(), problem.types.end(), [](const TensorType& type) {
      return std::all_of(type.shape.begin(), type.shape.end(), [](const Dim& d) { return d.is_constant(); });
    });
  }

  void compare(const Problem& problem, PluginRunKind kind, const std::vector<Tensor>& wanted) {
    (kind.on_device ? on_device_ : on_host_).insert(kind.tactic);
    const auto first = ran(problem, kind, pool_, std::byte{0xa5});
    const auto second = ran(problem, kind, pool_, std::byte{0x5a});
    for (size_t o = 0; o < wanted.size(); ++o) {
      const auto wrong = [&](const std::string& what) { fail(problem, kind, o, what); };
      // The threads of a device may add up in any order.
      const bool is_same =
          kind.on_device ? difference_in_scale(second[o], first[o]) <= options_.tolerance : first[o] == second[o];
      if (!is_same)
        wrong("it differs from run to run: elements are not written, or come from what was in memory before");
      const double error = difference_in_scale(first[o], wanted[o]);
      worst_ = std::max(worst_, error);
      if (error > options_.tolerance)
        wrong(fmt::format("it differs from {} by {:.3g} of its scale, {:.1g} is allowed",
                          instance_->has_reference() ? "the reference evaluation" : fmt::format("a {}", own_run()),
                          error, options_.tolerance));
    }
  }

  /// On a thread that is left behind where the plugin does not return, with all that it uses.
  std::vector<Tensor> ran(const Problem& problem, PluginRunKind kind, const std::shared_ptr<ThreadPool>& pool,
                          std::byte fill) {
    const auto results = std::make_shared<std::vector<Tensor>>();
    const auto call = [=, op = op_, instance = instance_, operands = problem.operands, types = problem.types,
                       device = options_.device](const Cancellation& cancellation) {
      const PluginDeviceScope on(device);
      // Sizes that only running tells are symbols here, too.
      std::vector<Dims> dims(types.size());
      std::vector<const Dims*> known;
      for (size_t o = 0; o < dims.size(); ++o) {
        bool is_known = true;
        for (const Dim& d : types[o].shape) {
          is_known = is_known && d.is_constant();
          if (is_known) dims[o].push_back(d.value());
        }
        known.push_back(is_known ? &dims[o] : nullptr);
      }
      *results = run_plugin(op, *instance, operands, types, known, kind, *pool, &cancellation, fill);
    };
    try {
      if (thread_.run(call, options_.limit, options_.cancellation)) return std::move(*results);
      throw PluginViolation(fmt::format("the plugin {} ({}) has not returned within {:.3g} s", op_.operator_name,
                                        op_.file, std::chrono::duration<double>(options_.limit).count()));
    } catch (const Error& e) {
      const bool is_violation = dynamic_cast<const PluginViolation*>(&e) != nullptr;
      // What a body for a device says itself, as that its kernels do not compile, is for all sizes.
      if (!is_violation && (runs_there(kind) || e.code() != ErrorCode::invalid_argument)) throw;
      throw Error(ErrorCode::verification_failed,
                  fmt::format("{} on {}: {}", describe(kind), problem.shapes, e.what()));
    }
  }
  bool runs_there(PluginRunKind kind) const {
    return kind.on_device || (!instance_->has_host() && !(kind.reference && instance_->has_reference()));
  }
  std::string describe(PluginRunKind kind) const {
    if (kind.reference) return "the reference evaluation";
    return fmt::format("tactic {}{}", kind.tactic, runs_there(kind) ? " on the GPU" : "");
  }
  [[noreturn]] void fail(const Problem& problem, PluginRunKind kind, size_t output, const std::string& what) const {
    throw Error(ErrorCode::verification_failed,
                fmt::format("the plugin {} is wrong: output {} of {} on {}: {}", op_.operator_name, output,
                            describe(kind), problem.shapes, what));
  }

  const ops::Plugin& op_;
  const PluginVerifyOptions& options_;
  std::shared_ptr<ThreadPool> pool_, alone_;
  std::shared_ptr<const PluginInstance> instance_;
  BoundedThread thread_;
  std::set<size_t> on_host_, on_device_;  // tactics that ran
  size_t shapes_ = 0;
  double worst_ = 0;
};

std::vector<std::string> symbols_of(const Graph& graph, const Node& node) {
  std::vector<std::string> names;
  for (const ValueId id : node.inputs)
    if (id != no_value)
      for (const Dim& d : graph.shape(id)) d.collect_symbols(names);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

std::map<std::string, std::string> plugins_of(const Graph& graph) {
  std::map<std::string, std::string> found;
  each_plugin(graph, [&](const Graph&, const Node&, const ops::Plugin& op) {
    found[op.operator_name] = fmt::format("version {} of {}, hash {}", op.version, op.file, op.hash);
  });
  return found;
}

void check_plugins_for(const Graph& graph, const DeviceInfo& device) {
  each_plugin(graph, [&](const Graph&, const Node& node, const ops::Plugin& op) {
    const std::shared_ptr<const PluginInstance> instance = op.instance();
    if (device.kind != "cpu" || instance->has_host() || instance->has_reference()) return;
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: the plugin {} ({}) has kernels for GPUs alone: build for one (--device cuda), or "
                            "give the plugin a function for the host, too",
                            node.sources.empty() ? "a node" : fmt::format("node '{}'", node.sources.front()),
                            op.operator_name, op.file));
  });
}

std::vector<std::string> plugins_without_reference(const Graph& graph) {
  std::map<std::string, bool> names;  // whether it has a body for the host
  each_plugin(graph, [&](const Graph&, const Node&, const ops::Plugin& op) {
    if (!op.instance()->has_reference()) names[op.operator_name] = op.instance()->has_host();
  });
  std::vector<std::string> lines;
  for (const auto& [name, has_host] : names)
    lines.push_back(fmt::format("the plugin {}: it has no reference evaluation, its own {} as right", name,
                                has_host ? "run on one thread counts" : "kernels by themselves count"));
  return lines;
}

std::vector<std::string> verify_plugins(const Graph& graph, const PluginVerifyOptions& options, int threads) {
  const PluginDeviceScope on(options.device);
  std::vector<std::string> lines;
  std::vector<std::string> of_inputs;
  for (const ValueId id : graph.inputs)
    for (const Dim& d : graph.shape(id)) d.collect_symbols(of_inputs);
  const std::set<std::string> chosen(of_inputs.begin(), of_inputs.end());
  each_plugin(graph, [&](const Graph& around, const Node& node, const ops::Plugin& op) {
    const auto is_float = [&](ValueId id) { return id == no_value || is_floating(around.type(id).dtype); };
    if (options.briefly && !std::all_of(node.inputs.begin(), node.inputs.end(), is_float)) return;
    Trial trial(op, options, threads);
    const std::vector<std::string> symbols = symbols_of(around, node);
    // Sizes that only running tells cannot be made up: the engine as a whole is verified with real ones.
    const auto is_chosen = [&](const std::string& symbol) { return chosen.contains(symbol); };
    if (options.briefly && !std::all_of(symbols.begin(), symbols.end(), is_chosen)) return;
    SymbolBindings sizes = options.optimum;
    for (const std::string& symbol : symbols) sizes.try_emplace(symbol, 4);
    size_t ran = 0;
    for (size_t t = 0; t <= std::size(tails); ++t) {
      if (const auto problem = problem_of(around, node, sizes, options.seed + t)) {
        try {
          check_rule_of(around, node, op, sizes, *problem);
          trial.run(*problem);
        } catch (const PluginViolation& e) {
          throw Error(ErrorCode::verification_failed,
                      fmt::format("{}: {}", describe_node(node.sources, node.op), e.what()));
        } catch (const Error& e) {
          if (e.code() != ErrorCode::verification_failed) throw;
          throw Error(e.code(), fmt::format("{}: {}", describe_node(node.sources, node.op), e.what()));
        }
        ++ran;
      }
      if (options.briefly || symbols.empty() || t == std::size(tails)) break;
      for (size_t s = 0; s < symbols.size(); ++s) sizes[symbols[s]] = tails[(t + 5 * s) % std::size(tails)];
    }
    if (ran == 0 && options.briefly) return;
    if (ran == 0)
      throw Error(
          ErrorCode::verification_failed,
          fmt::format("the plugin {} cannot be verified: it refuses all sizes that were tried; give shapes that "
                      "fit (--shapes)",
                      op.operator_name));
    lines.push_back(trial.summary());
  });
  return lines;
}

}  // namespace camshaft
