#include "builder/unmet_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "base/text/name_list.h"
#include "ir/ops/quantize.h"

namespace camshaft {

namespace {

bool is_named(const std::string& pattern, const std::vector<std::string>& sources) {
  return std::any_of(sources.begin(), sources.end(), [&](const std::string& s) { return matches(pattern, s); });
}

std::string describe(const PrecisionRule& rule, const char* of) {
  return fmt::format("{} for {} '{}'", EnumNames<LayerPrecision>::values[static_cast<size_t>(rule.precision)], of,
                     rule.pattern);
}

// Whether a rule, of these, is the last word on a layer: the others may be meant for the rest of a pattern.
bool decides(const PrecisionRule& rule, const PrecisionRules& all, const std::vector<std::string>& sources) {
  return is_named(rule.pattern, sources) && all.of(sources) == rule.precision;
}

bool is_low(const PrecisionRule& rule) {
  return rule.precision == LayerPrecision::int8 || rule.precision == LayerPrecision::fp8;
}

// Why a layer of the model that the rule asks int8 or fp8 of is not; empty: all are.
std::string not_quantized(const PrecisionRule& rule, const BuildOptions& options, const OptimizedModel& optimized) {
  const std::string_view name = EnumNames<LayerPrecision>::values[static_cast<size_t>(rule.precision)];
  if (!(rule.precision == LayerPrecision::int8 ? options.int8 : options.fp8))
    return fmt::format("the build does not allow it (--{})", name);
  const PrecisionRules all(options.layer_precisions);
  bool any = false;
  for (const LayerPlacement& layer : optimized.quantized_layers) {
    if (!is_named(rule.pattern, layer.sources)) continue;
    any = true;
    if (!decides(rule, all, layer.sources)) continue;
    if (layer.quantized && layer.precision != rule.precision)
      return fmt::format("an engine has one type of 8 bits, which is not {} here (allow it alone)", name);
    if (!layer.quantized)
      return fmt::format("'{}' stays in floating point: {}", layer.layer, layer.reason);
  }
  return any ? "" : "it is no convolution or product with constant weights that this build quantises";
}

// Why no result of what the rule asks a narrow type of is stored in it; empty: one is.
std::string not_narrow(const PrecisionRule& rule, const BuildOptions& options, const OptimizedModel& optimized) {
  const bool is_fp16 = rule.precision == LayerPrecision::fp16;
  if (!(is_fp16 ? options.fp16 : options.bf16))
    return fmt::format("the build does not allow it (--{})", is_fp16 ? "fp16" : "bf16");
  const DType wanted = is_fp16 ? DType::f16 : DType::bf16;
  for (const Node& node : optimized.graph.nodes) {
    if (!is_named(rule.pattern, node.sources)) continue;
    if (std::any_of(node.outputs.begin(), node.outputs.end(),
                    [&](ValueId id) { return optimized.graph.type(id).dtype == wanted; }))
      return "";
  }
  return "no result of it is stored so in this engine";
}

// Why a result that the rule asks fp32 of is stored in something else; empty: none is.
std::string not_wide(const PrecisionRule& rule, const BuildOptions& options, const Graph& model,
                     const OptimizedModel& optimized) {
  const PrecisionRules all(options.layer_output_types);
  std::set<std::string> own;  // what the model itself has narrow is no matter of the build
  for (const Value& value : model.values)
    if (value.type.dtype != DType::f32) own.insert(value.name);
  for (const Node& node : optimized.graph.nodes)
    for (const ValueId id : node.outputs)
      if (const DType dtype = optimized.graph.type(id).dtype; (dtype == DType::f16 || dtype == DType::bf16) &&
                                                              decides(rule, all, node.sources) &&
                                                              !own.contains(optimized.graph.value(id).name))
        return fmt::format("'{}' is stored as {}", optimized.graph.value(id).name, to_string(dtype));
  const Graph& reference = optimized.reference;
  const Uses uses(reference);
  for (const Node& node : reference.nodes) {
    if (!node.op.as<ops::Quantize>() || own.contains(reference.value(node.outputs[0]).name)) continue;
    const int32_t producer = uses.producer[static_cast<size_t>(node.inputs[0])];
    if (producer >= 0 && decides(rule, all, reference.nodes[static_cast<size_t>(producer)].sources))
      return fmt::format("'{}' is stored in 8 bits for what reads it so (layer-precisions can ask fp32 of that)",
                         reference.value(node.inputs[0]).name);
  }
  return "";
}

bool is_half(const PrecisionRule& rule) {
  return rule.precision == LayerPrecision::fp16 || rule.precision == LayerPrecision::bf16;
}

}  // namespace

std::vector<std::string> unmet_rules(const BuildOptions& options, const Graph& model, const OptimizedModel& optimized) {
  std::vector<std::string> unmet;
  const auto add = [&](const PrecisionRule& rule, const char* of, const std::string& why) {
    if (!why.empty()) unmet.push_back(fmt::format("{}: {}", describe(rule, of), why));
  };
  const auto no_node = [&](const PrecisionRule& rule) -> std::string {
    if (std::any_of(model.nodes.begin(), model.nodes.end(),
                    [&](const Node& node) { return is_named(rule.pattern, node.sources); }))
      return "";
    std::set<std::string> names;
    for (const Node& node : model.nodes) names.insert(node.sources.begin(), node.sources.end());
    return fmt::format("the model has no such node, as {} are", name_list({names.begin(), names.end()}));
  };
  for (const PrecisionRule& rule : options.layer_precisions) {
    std::string why = no_node(rule);
    if (why.empty() && is_low(rule)) why = not_quantized(rule, options, optimized);
    const bool is_rounded = rule.precision == LayerPrecision::bf16 && optimized.rounds_to_bf16;
    if (why.empty() && is_half(rule) && !is_rounded) why = not_narrow(rule, options, optimized);
    add(rule, "the layer", why);
  }
  for (const PrecisionRule& rule : options.layer_output_types) {
    std::string why = no_node(rule);
    if (why.empty())
      why = is_half(rule) ? not_narrow(rule, options, optimized) : not_wide(rule, options, model, optimized);
    add(rule, "the results of", why);
  }
  return unmet;
}

void check_rules(const BuildOptions& options, const Graph& model, const OptimizedModel& optimized,
                 std::string_view outcome) {
  if (options.constraints == PrecisionConstraints::none) return;
  for (const std::string& unmet : unmet_rules(options, model, optimized)) {
    if (options.constraints == PrecisionConstraints::obey)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("a precision cannot be had: {}. With --precision-constraints prefer {} all the same",
                              unmet, outcome));
    log_warning("not as asked: " + unmet);
  }
}

}  // namespace camshaft
