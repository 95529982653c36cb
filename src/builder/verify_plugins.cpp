#include "builder/verify_plugins.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "builder/sample_inputs.h"
#include "ir/ops/plugin.h"
#include "ir/symbols.h"
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
  Trial(const ops::Plugin& op, const PluginVerifyOptions& options, ThreadPool& pool)
      : op_(op), options_(options), pool_(pool), instance_(op.instance()) {}

  void run(const Problem& problem) {
    ++shapes_;
    ThreadPool alone(1);
    const bool has_reference = instance_->has_reference();
    const auto wanted = ran(problem, {has_reference, 0}, has_reference ? pool_ : alone, std::byte{0xa5});
    std::vector<PluginOperand> inputs, outputs;
    for (const Tensor& t : problem.operands)
      inputs.push_back(t.defined() ? PluginOperand{t.dtype(), t.dims()}
                                   : PluginOperand{DType::f32, {}, nullptr, false});
    for (const Tensor& t : wanted) outputs.push_back({t.dtype(), t.dims()});
    if (!instance_->has_host()) return;  // a body for GPUs is what the engine's verification judges
    const size_t tactics = instance_->tactics({inputs, outputs});
    for (size_t tactic = 0; tactic < tactics; ++tactic) {
      options_.cancellation.check("verifying plugins");
      if (!instance_->supports({inputs, outputs, tactic})) continue;
      tactics_.insert(tactic);
      const auto first = ran(problem, {false, tactic}, pool_, std::byte{0xa5});
      const auto second = ran(problem, {false, tactic}, pool_, std::byte{0x5a});
      for (size_t o = 0; o < wanted.size(); ++o) {
        const auto wrong = [&](const std::string& what) { fail(problem, tactic, o, what); };
        if (!(first[o] == second[o]))
          wrong("it differs from run to run: elements are not written, or come from what was in memory before");
        const double error = difference_in_scale(first[o], wanted[o]);
        worst_ = std::max(worst_, error);
        if (error > options_.tolerance)
          wrong(fmt::format("it differs from {} by {:.3g} of its scale, {:.1g} is allowed",
                            has_reference ? "the reference evaluation" : "a run on one thread", error,
                            options_.tolerance));
      }
    }
  }

  std::string summary() const {
    if (!instance_->has_host())
      return fmt::format(
          "the plugin {}: its reference evaluation runs on {} {} of shapes; it has a body for GPUs alone",
          op_.operator_name, shapes_, shapes_ == 1 ? "set" : "sets");
    return fmt::format("the plugin {}: {} {} on {} {} of shapes agree with {}, within {:.1e} of the scale",
                       op_.operator_name, tactics_.size(), tactics_.size() == 1 ? "tactic" : "tactics", shapes_,
                       shapes_ == 1 ? "set" : "sets",
                       instance_->has_reference() ? "its reference evaluation" : "its own run on one thread", worst_);
  }

 private:
  std::vector<Tensor> ran(const Problem& problem, PluginRunKind kind, ThreadPool& pool, std::byte fill) const {
    // Sizes that only running tells are symbols here, too.
    std::vector<Dims> dims(problem.types.size());
    std::vector<const Dims*> known;
    for (size_t o = 0; o < dims.size(); ++o) {
      bool is_known = true;
      for (const Dim& d : problem.types[o].shape) {
        is_known = is_known && d.is_constant();
        if (is_known) dims[o].push_back(d.value());
      }
      known.push_back(is_known ? &dims[o] : nullptr);
    }
    try {
      return run_plugin(op_, *instance_, problem.operands, problem.types, known, kind, pool, &options_.cancellation,
                        fill);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::invalid_argument) throw;
      throw Error(ErrorCode::verification_failed,
                  fmt::format("{} on {}: {}", describe(kind), problem.shapes, e.what()));
    }
  }
  static std::string describe(PluginRunKind kind) {
    return kind.reference ? "the reference evaluation" : fmt::format("tactic {}", kind.tactic);
  }
  [[noreturn]] void fail(const Problem& problem, size_t tactic, size_t output, const std::string& what) const {
    throw Error(ErrorCode::verification_failed, fmt::format("the plugin {} is wrong: output {} of tactic {} on {}: {}",
                                                            op_.operator_name, output, tactic, problem.shapes, what));
  }

  const ops::Plugin& op_;
  const PluginVerifyOptions& options_;
  ThreadPool& pool_;
  std::shared_ptr<const PluginInstance> instance_;
  std::set<size_t> tactics_;
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

std::vector<std::string> verify_plugins(const Graph& graph, const PluginVerifyOptions& options, ThreadPool& pool) {
  std::vector<std::string> lines;
  std::vector<std::string> of_inputs;
  for (const ValueId id : graph.inputs)
    for (const Dim& d : graph.shape(id)) d.collect_symbols(of_inputs);
  const std::set<std::string> chosen(of_inputs.begin(), of_inputs.end());
  each_plugin(graph, [&](const Graph& around, const Node& node, const ops::Plugin& op) {
    const auto is_float = [&](ValueId id) { return id == no_value || is_floating(around.type(id).dtype); };
    if (options.briefly && !std::all_of(node.inputs.begin(), node.inputs.end(), is_float)) return;
    Trial trial(op, options, pool);
    const std::vector<std::string> symbols = symbols_of(around, node);
    // Sizes that only running tells cannot be made up: the engine as a whole is verified with real ones.
    const auto is_chosen = [&](const std::string& symbol) { return chosen.contains(symbol); };
    if (options.briefly && !std::all_of(symbols.begin(), symbols.end(), is_chosen)) return;
    SymbolBindings sizes = options.optimum;
    for (const std::string& symbol : symbols) sizes.try_emplace(symbol, 4);
    size_t ran = 0;
    for (size_t t = 0; t <= std::size(tails); ++t) {
      if (const auto problem = problem_of(around, node, sizes, options.seed + t)) {
        check_rule_of(around, node, op, sizes, *problem);
        trial.run(*problem);
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
