#include "api/describe.h"

namespace camshaft::api {

using nlohmann::json;

json describe(const OutputError& e) {
  return {{"output", e.output}, {"max_error", e.max_error}, {"scale", e.scale},
          {"exact", e.exact},   {"differing", e.differing}, {"undecided", e.undecided},
          {"passed", e.passed}, {"telling", e.telling},     {"relative_error", e.relative()},
          {"doubt", e.doubt},   {"compared", e.compared}};
}

json describe(const LayerPlacement& layer) {
  return {{"layer", layer.layer},
          {"quantized", layer.quantized},
          {"precision", EnumNames<LayerPrecision>::values[static_cast<size_t>(layer.precision)]},
          {"reason", layer.reason},
          {"float_seconds", layer.float_seconds},
          {"int8_seconds", layer.int8_seconds}};
}

json describe(const PrecisionGain& gain) {
  return {{"precision", gain.precision}, {"speedup", gain.speedup}, {"error", gain.error ? json(*gain.error) : json()}};
}

json describe(const BuildReport& r) {
  return {{"verification", describe_all(r.verification)},
          {"samples", r.samples},
          {"not_verified", r.not_verified},
          {"sensitivity", r.sensitivity},
          {"rounding_noise", r.rounding_noise},
          {"judged_tensors", r.judged_tensors},
          {"undecided_tensors", r.undecided_tensors},
          {"layers_error", r.layers_error},
          {"seconds_import", r.seconds_import},
          {"seconds_optimize", r.seconds_optimize},
          {"seconds_tune", r.seconds_tune},
          {"seconds_compile", r.seconds_compile},
          {"seconds_verify", r.seconds_verify},
          {"problems_measured", r.problems_measured},
          {"problems_cached", r.problems_cached},
          {"problems_out_of_time", r.problems_out_of_time},
          {"approximate_refused", r.approximate_refused},
          {"kept_f32", r.kept_f32},
          {"quantized_layers", describe_all(r.quantized_layers)},
          {"gains", describe_all(r.gains)},
          {"model_nodes", r.model_nodes},
          {"passes", r.passes},
          {"layers", r.layers},
          {"refittable", r.refittable},
          {"not_refittable", r.not_refittable},
          {"refit_costs", r.refit_costs},
          {"lora", r.lora}};
}

json describe(const RewriteReport& r) {
  return {{"nodes_before", r.nodes_before},
          {"nodes", r.nodes},
          {"bytes_before", r.bytes_before},
          {"bytes", r.bytes},
          {"opset_before", r.opset_before},
          {"opset", r.opset},
          {"verification", describe_all(r.verification)},
          {"samples", r.samples},
          {"not_verified", r.not_verified}};
}

json describe(const TensorInfo& info) {
  return {{"name", info.name}, {"dtype", to_string(info.dtype)},     {"dims", info.dims}, {"dim_names", info.dim_names},
          {"type", info.type}, {"aliased_input", info.aliased_input}};
}

json describe(const Profile& profile) {
  json inputs = json::object();
  for (const auto& [name, range] : profile.inputs)
    inputs[name] = {{"min", range.min}, {"opt", range.opt}, {"max", range.max}};
  return inputs;
}

json describe(const MemoryInfo& memory) {
  return {{"arena_bytes", memory.arena_bytes},
          {"arena_lower_bound", memory.arena_lower_bound},
          {"weight_bytes", memory.weight_bytes},
          {"kept_bytes", memory.kept_bytes}};
}

json describe(const WeightStreaming& streaming) {
  return {{"weight_bytes", streaming.weight_bytes},
          {"streamable_bytes", streaming.streamable_bytes},
          {"least_budget", streaming.least_budget},
          {"automatic_budget", streaming.automatic_budget},
          {"budget", streaming.budget},
          {"staying_bytes", streaming.staying_bytes},
          {"window_bytes", streaming.window_bytes},
          {"loads_bytes", streaming.loads_bytes},
          {"brought_bytes", streaming.brought_bytes},
          {"waited_seconds", streaming.waited_seconds}};
}

json describe(const LayerInfo& layer) {
  json weights = json::array();
  for (const LayerWeight& weight : layer.weights)
    weights.push_back(
        {{"name", weight.name}, {"layout", weight.layout}, {"bytes", weight.bytes}, {"offset", weight.offset}});
  json tried = json::array();
  for (const TacticTrial& trial : layer.tried)
    tried.push_back({{"tactic", trial.tactic},
                     {"estimated_ns", trial.estimated_ns},
                     {"measured_ns", trial.measured_ns},
                     {"refused", trial.refused}});
  return {{"name", layer.name},
          {"op", layer.op},
          {"tactic", layer.tactic},
          {"inputs", layer.inputs},
          {"outputs", layer.outputs},
          {"description", layer.description},
          {"tried", tried},
          {"notes", layer.notes},
          {"sources", layer.sources},
          {"at_binding", layer.at_binding},
          {"reads", layer.reads},
          {"weights", weights},
          {"streamed_bytes", layer.streamed_bytes}};
}

json describe(const LayerTime& layer) {
  return {{"name", layer.name},       {"op", layer.op},     {"tactic", layer.tactic},        {"sources", layer.sources},
          {"seconds", layer.seconds}, {"runs", layer.runs}, {"at_binding", layer.at_binding}};
}

json describe(const LayerSpan& layer) {
  return {{"layer", layer.layer},
          {"device", to_string(layer.device)},
          {"start", layer.time.start},
          {"seconds", layer.time.seconds}};
}

json describe(const RunSpan& run) {
  return {{"start", run.time.start},
          {"seconds", run.time.seconds},
          {"thread", run.thread},
          {"layers", describe_all(run.layers)}};
}

json describe(const DeviceLimits& limits) {
  json known = json::object();
  const auto add = [&](const char* name, double per_second) {
    if (per_second > 0) known[name] = per_second * 1e-9;
  };
  add("memory_gbs", limits.memory_bytes);
  add("f32_gflops", limits.f32_flops);
  add("half_gflops", limits.half_flops);
  add("tf32_gflops", limits.tf32_flops);
  return known;
}

json describe(const DeviceInfo& device) {
  return {{"kind", device.kind},
          {"name", device.name},
          {"isa", device.isa},
          {"cores", device.cores},
          {"features", device.features},
          {"memory_bytes", device.memory_bytes},
          {"limits", describe(device.limits)}};
}

}  // namespace camshaft::api
