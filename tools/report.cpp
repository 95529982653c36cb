#include "tools/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/format_bytes.h"

namespace camshaft::tools {

namespace {

// Of UTF-8 text, in characters.
size_t text_width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// JSON has no infinities.
nlohmann::json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

std::string bytes_text(int64_t bytes) {
  return format_bytes(static_cast<size_t>(std::max<int64_t>(bytes, 0)));
}

}  // namespace

std::string format_table(const std::vector<std::vector<std::string>>& rows, const std::vector<size_t>& right) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], text_width(row[c]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - text_width(row[c]), ' ');
      const bool to_right = std::find(right.begin(), right.end(), c) != right.end();
      line += (c ? "  " : "") + (to_right ? padding + row[c] : row[c] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string format_errors(const std::vector<OutputError>& errors) {
  std::string out;
  for (const OutputError& e : errors) {
    out += fmt::format("output '{}': ", e.output);
    if (e.compared == 0) {
      out += "nothing to compare, it is empty or has no finite number";
    } else if (e.exact) {
      out += e.differing == 0
                 ? "equal"
                 : fmt::format("{:.2g}% of its elements differ, by up to {:.3g} (rounding decides {:.2g}%)",
                               100 * e.differing, e.max_error, 100 * e.undecided);
    } else {
      out += fmt::format("worst error {:.1e} of its scale {:.3g}", e.relative_error, e.scale);
    }
    if (!e.doubt.empty()) out += fmt::format(" ({})", e.doubt);
    out += !e.passed ? ": FAILED\n" : e.telling ? ": passed\n" : ": says too little, the layers passed\n";
  }
  return out;
}

std::string format_layers(const BuildReport& report) {
  if (report.judged_tensors == 0) return "";
  std::string text = fmt::format(
      "outputs cannot judge the engine alone, rounding moves them by {:.1e} of their scale; {} tensors of its layers,"
      " each on the inputs that the engine gave it, differ by {:.2g} of what is allowed at most",
      report.sensitivity, report.judged_tensors, report.layers_error);
  if (report.undecided_tensors > 0) text += fmt::format("; {} of them cannot tell either", report.undecided_tensors);
  return text;
}

nlohmann::json to_json(const std::vector<OutputError>& errors) {
  nlohmann::json list = nlohmann::json::array();
  for (const OutputError& e : errors)
    list.push_back({{"output", e.output},
                    {"max_error", finite_or_null(e.max_error)},
                    {"scale", finite_or_null(e.scale)},
                    {"relative_error", finite_or_null(e.relative_error)},
                    {"exact", e.exact},
                    {"differing", e.differing},
                    {"undecided", e.undecided},
                    {"passed", e.passed},
                    {"telling", e.telling},
                    {"doubt", e.doubt},
                    {"compared", e.compared}});
  return list;
}

nlohmann::json to_json(const std::vector<LayerPlacement>& layers) {
  nlohmann::json list = nlohmann::json::array();
  for (const LayerPlacement& layer : layers)
    list.push_back({{"layer", layer.layer},
                    {"quantized", layer.quantized},
                    {"precision", layer.precision},
                    {"reason", layer.reason},
                    {"float_seconds", layer.float_seconds},
                    {"int8_seconds", layer.int8_seconds}});
  return list;
}

nlohmann::json to_json(const std::vector<PrecisionGain>& gains) {
  nlohmann::json list = nlohmann::json::array();
  for (const PrecisionGain& gain : gains)
    list.push_back({{"precision", gain.precision},
                    {"speedup", gain.speedup},
                    {"error", gain.error ? nlohmann::json(*gain.error) : nlohmann::json()}});
  return list;
}

nlohmann::json to_json(const TensorInfo& info) {
  nlohmann::json shape = nlohmann::json::array();
  for (size_t i = 0; i < info.dims.size(); ++i)
    shape.push_back(info.dims[i] >= 0 ? nlohmann::json(info.dims[i]) : nlohmann::json(info.dim_names[i]));
  return {{"name", info.name}, {"dtype", std::string(to_string(info.dtype))}, {"shape", shape}, {"type", info.type}};
}

nlohmann::json to_json(const MemoryInfo& memory) {
  return {{"arena_bytes", memory.arena_bytes},
          {"arena_lower_bound", memory.arena_lower_bound},
          {"weight_bytes", memory.weight_bytes},
          {"kept_bytes", memory.kept_bytes}};
}

nlohmann::json to_json(const Profile& profile) {
  nlohmann::json inputs = nlohmann::json::object();
  for (const auto& [name, range] : profile.inputs)
    inputs[name] = {{"min", range.min}, {"opt", range.opt}, {"max", range.max}};
  return inputs;
}

std::string format_memory(const MemoryInfo& memory) {
  return fmt::format("arena {} (lower bound {}), weights {}, kept for these shapes {}", bytes_text(memory.arena_bytes),
                     bytes_text(memory.arena_lower_bound), bytes_text(memory.weight_bytes),
                     bytes_text(memory.kept_bytes));
}

std::string format_streaming(const WeightStreaming& s) {
  if (s.streamable_bytes == 0) return fmt::format("{} in memory", bytes_text(s.weight_bytes));
  const std::string possible =
      fmt::format("; the least budget is {}, auto {} now", bytes_text(s.least_budget), bytes_text(s.automatic_budget));
  if (s.budget < 0) return fmt::format("no budget: {} of weights{}", bytes_text(s.weight_bytes), possible);
  return fmt::format("budget {} of {}: {} stay, {} come in for each run through {}{}", bytes_text(s.budget),
                     bytes_text(s.weight_bytes), bytes_text(s.staying_bytes), bytes_text(s.loads_bytes),
                     bytes_text(s.window_bytes), possible);
}

nlohmann::json to_json(const WeightStreaming& s) {
  return {{"weight_bytes", s.weight_bytes},
          {"streamable_bytes", s.streamable_bytes},
          {"least_budget", s.least_budget},
          {"automatic_budget", s.automatic_budget},
          {"budget", s.budget},
          {"staying_bytes", s.staying_bytes},
          {"window_bytes", s.window_bytes},
          {"loads_bytes", s.loads_bytes},
          {"brought_bytes", s.brought_bytes},
          {"waited_seconds", s.waited_seconds}};
}

void print_json(const nlohmann::json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string join(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ", ") + item;
  return out;
}

}  // namespace camshaft::tools
