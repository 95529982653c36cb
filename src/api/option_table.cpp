#include "api/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "base/similar_names.h"
#include "base/workers.h"
#include "camshaft/camshaft.h"

namespace camshaft::api {

namespace {

using nlohmann::json;

constexpr std::string_view tuning_names[] = {"heuristic", "measure", "locked"};

Tuning parse_tuning(const std::string& text) {
  for (size_t i = 0; i < std::size(tuning_names); ++i)
    if (text == tuning_names[i]) return static_cast<Tuning>(i);
  throw Error(ErrorCode::invalid_argument, fmt::format("tuning must be heuristic, measure or locked, not '{}'", text));
}

constexpr std::string_view constraint_names[] = {"none", "prefer", "obey"};

PrecisionConstraints parse_constraints(const std::string& text) {
  for (size_t i = 0; i < std::size(constraint_names); ++i)
    if (text == constraint_names[i]) return static_cast<PrecisionConstraints>(i);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("precision-constraints must be none, prefer or obey, not '{}'", text));
}

std::vector<std::string> rule_texts(const std::vector<PrecisionRule>& rules) {
  std::vector<std::string> texts;
  for (const PrecisionRule& rule : rules)
    texts.push_back(
        fmt::format("{}:{}", rule.pattern, EnumNames<LayerPrecision>::values[static_cast<size_t>(rule.precision)]));
  return texts;
}

std::pair<std::string, std::string> parse_lora(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("lora takes the name and the file of an adapter, NAME=FILE, not '{}'", text));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<std::string> lora_texts(const std::vector<std::pair<std::string, std::string>>& adapters) {
  std::vector<std::string> texts;
  for (const auto& [name, file] : adapters) texts.push_back(fmt::format("{}={}", name, file));
  return texts;
}

template <auto Field>
constexpr void (*set_build)(Settings&, const json&) = [](Settings& s, const json& v) { v.get_to(s.build.*Field); };
template <auto Field>
constexpr json (*get_build)(const Settings&) = [](const Settings& s) -> json { return s.build.*Field; };

template <auto Field>
constexpr Option build_option(std::string_view name, OptionKind kind, std::string_view description) {
  return {name, kind, description, set_build<Field>, get_build<Field>};
}

int whole_number(const json& value, const char* name) {
  const auto number = value.get<int64_t>();
  if (number < INT32_MIN || number > INT32_MAX)
    throw Error(ErrorCode::invalid_argument, fmt::format("{} cannot be {}", name, number));
  return static_cast<int>(number);
}

int thread_count(const json& value) {
  const int threads = whole_number(value, "threads");
  if (threads < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("threads cannot be {}; give 1 or more, or 0 for one for each core", threads));
  return threads == 0 ? 0 : checked_threads(threads);
}

// No error is larger than infinity or NaN: with such a tolerance every engine would pass.
double tolerance_of(const json& value) {
  const auto tolerance = value.get<double>();
  if (!std::isfinite(tolerance) || tolerance < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tolerance cannot be {}; give a finite number of 0 or more", tolerance));
  return tolerance;
}

double limit_or_none(const json& value, const char* name) {
  const auto limit = value.get<double>();
  if (limit != -1 && (!(limit >= 0) || limit > 1e18))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} cannot be {}; give a number from 0, which means the default, to 1e18, or -1 for none",
                            name, limit));
  return limit;
}

// A byte count, too, is taken as a number: as 4e9.
double limit_of(const json& value, const char* name) {
  const auto limit = value.get<double>();
  if (!(limit >= 0) || limit > 1e18)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} cannot be {}; give a number from 0, which means the default, to 1e18", name, limit));
  return limit;
}

constexpr Option options_of_build[] = {
    build_option<&BuildOptions::device>(
        "device", OptionKind::text,
        "What the engine runs on: cpu, cuda (the first GPU), or a GPU by its number, as cuda:1"),
    build_option<&BuildOptions::fp16>("fp16", OptionKind::boolean,
                                      "Allow tensors within the model to be stored in fp16, and products to be taken "
                                      "in it"),
    build_option<&BuildOptions::bf16>("bf16", OptionKind::boolean,
                                      "The same in bf16; where both are allowed it is fp16. On CPUs with AVX512_BF16 "
                                      "tensors stay fp32, and operands of products may be rounded"),
    build_option<&BuildOptions::tf32>("tf32", OptionKind::boolean,
                                      "Allow products of fp32 to be taken of operands rounded to TF32"),
    build_option<&BuildOptions::int8>("int8", OptionKind::boolean,
                                      "Allow layers to be computed on integers of 8 bits, by the ranges of a "
                                      "calibration"),
    build_option<&BuildOptions::fp8>("fp8", OptionKind::boolean,
                                     "The same on floats of 8 bits (E4M3), on GPUs of compute capability 8.9 or more; "
                                     "where both are allowed it is the faster one"),
    build_option<&BuildOptions::best>("best", OptionKind::boolean,
                                      "Allow all precisions that are faster here: fp16 or bf16, tf32, and int8 and fp8 "
                                      "with a calibration"),
    build_option<&BuildOptions::strongly_typed>("strongly-typed", OptionKind::boolean,
                                                "Allow no types but those of the model's own tensors"),
    {"layer-precisions", OptionKind::list,
     "What a layer is computed in, as NAME:PRECISION (fp32, fp16, bf16, int8 or fp8; * in the name stands for any "
     "text)",
     [](Settings& s, const json& v) { s.build.layer_precisions.push_back(parse_precision_rule(v.get<std::string>())); },
     [](const Settings& s) -> json { return rule_texts(s.build.layer_precisions); }},
    {"layer-output-types", OptionKind::list, "What the results of a layer are stored in, as NAME:TYPE",
     [](Settings& s, const json& v) {
       s.build.layer_output_types.push_back(parse_precision_rule(v.get<std::string>()));
     },
     [](const Settings& s) -> json { return rule_texts(s.build.layer_output_types); }},
    {"precision-constraints", OptionKind::text,
     "What becomes of the precisions of layers: none (ignored), prefer (a warning where they cannot be had), or obey "
     "(an "
     "error)",
     [](Settings& s, const json& v) { s.build.constraints = parse_constraints(v.get<std::string>()); },
     [](const Settings& s) -> json { return constraint_names[static_cast<size_t>(s.build.constraints)]; },
     constraint_names},
    build_option<&BuildOptions::calibration>("calibration", OptionKind::text,
                                             "The file with the ranges of tensors that int8 and fp8 need"),
    {"threads", OptionKind::integer, "Threads to build, measure and verify with; 0: one for each core",
     [](Settings& s, const json& v) { s.build.threads = thread_count(v); },
     [](const Settings& s) -> json { return s.build.threads; }},
    {"tuning", OptionKind::text,
     "How kernels are chosen: measure, heuristic (by the cost model alone), or locked (as the lock file says)",
     [](Settings& s, const json& v) { s.build.tuning = parse_tuning(v.get<std::string>()); },
     [](const Settings& s) -> json { return tuning_names[static_cast<size_t>(s.build.tuning)]; }, tuning_names},
    build_option<&BuildOptions::timing_cache>("timing-cache", OptionKind::text,
                                              "A file that keeps what was measured; made if there is none"),
    build_option<&BuildOptions::tuning_seconds>("tuning-seconds", OptionKind::number,
                                                "Stop measuring after this long; the cost model decides the rest"),
    build_option<&BuildOptions::lock>("lock", OptionKind::text, "The lock file to take every choice from"),
    build_option<&BuildOptions::write_lock>("write-lock", OptionKind::text,
                                            "Where to write the lock file of this build; empty: nowhere"),
    build_option<&BuildOptions::verify>("verify", OptionKind::boolean,
                                        "Compare the engine with the reference evaluation, and fail outside the "
                                        "tolerance"),
    {"tolerance", OptionKind::number,
     "Largest error of an output, as a part of its scale; 0: 1e-4, 0.02 with fp16 or tf32, 0.1 with bf16, where the "
     "device gains from it",
     [](Settings& s, const json& v) { s.build.tolerance = tolerance_of(v); },
     [](const Settings& s) -> json { return s.build.effective_tolerance(); }},
    build_option<&BuildOptions::verify_seconds>("verify-seconds", OptionKind::number,
                                                "Verify on further seeds and sizes as long as they fit into this time"),
    {"max-operations", OptionKind::number,
     "Refuse to fold, measure and verify with more operations than this in all; 0: 5e11, and more for a large model",
     [](Settings& s, const json& v) { s.build.max_operations = limit_of(v, "max-operations"); },
     [](const Settings& s) -> json { return s.build.max_operations; }},
    {"max-memory", OptionKind::number,
     "Refuse to hold more bytes than this in the host's memory at once, beside the model's file; 0: a quarter of the "
     "machine's memory, 6 GiB at least, and more for a large model",
     [](Settings& s, const json& v) { s.build.max_memory = limit_of(v, "max-memory"); },
     [](const Settings& s) -> json { return s.build.max_memory; }},
    {"seed", OptionKind::integer, "Of the inputs used for verification",
     [](Settings& s, const json& v) { s.build.seed = static_cast<uint64_t>(v.get<int64_t>()); },
     [](const Settings& s) -> json { return static_cast<int64_t>(s.build.seed); }},
    build_option<&BuildOptions::refit>(
        "refit", OptionKind::boolean,
        "Make an engine whose weights can be replaced; the report says which cannot, and "
        "what that costs"),
    build_option<&BuildOptions::strip_weights>("strip-weights", OptionKind::boolean,
                                               "The same, and save it without weights: a refit must bring them"),
    {"lora", OptionKind::list,
     "An adapter of LoRA that runs may choose, as NAME=FILE: a .safetensors file, or the folder that PEFT writes",
     [](Settings& s, const json& v) { s.build.lora.push_back(parse_lora(v.get<std::string>())); },
     [](const Settings& s) -> json { return lora_texts(s.build.lora); }},
    {"debug-tensors", OptionKind::list, "Tensors to keep through fusion, as further outputs",
     [](Settings& s, const json& v) { s.build.debug_tensors.push_back(v.get<std::string>()); },
     [](const Settings& s) -> json { return s.build.debug_tensors; }},
    {"stop-after-pass", OptionKind::integer, "Run only the first N optimiser passes; -1: all",
     [](Settings& s, const json& v) { s.build.stop_after_pass = whole_number(v, "stop-after-pass"); },
     [](const Settings& s) -> json { return s.build.stop_after_pass; }},
};

constexpr Option context_options[] = {
    {"threads", OptionKind::integer,
     "Threads that a run uses, the caller's among them; 0: one for each core; more are the context's own",
     [](Settings& s, const json& v) { s.context.threads = thread_count(v); },
     [](const Settings& s) -> json { return s.context.threads; }},
    {"shares-memory", OptionKind::boolean, "Contexts of an engine for the CPU borrow their arena for the time of a run",
     [](Settings& s, const json& v) { s.context.shares_memory = v; },
     [](const Settings& s) -> json { return s.context.shares_memory; }},
    {"max-operations", OptionKind::number,
     "Refuse runs with more operations than this; 0: what a build may by default, -1: refuse none",
     [](Settings& s, const json& v) { s.context.max_operations = limit_or_none(v, "max-operations"); },
     [](const Settings& s) -> json { return s.context.max_operations; }},
    {"max-memory", OptionKind::number,
     "Refuse to hold more bytes than this in the host's memory at once; 0: what a build may by default, -1: no limit",
     [](Settings& s, const json& v) { s.context.max_memory = limit_or_none(v, "max-memory"); },
     [](const Settings& s) -> json { return s.context.max_memory; }},
};

constexpr Option load_options[] = {
    {"device", OptionKind::text,
     "What the engine runs on, of the kind that it was built for: cpu, cuda (the first GPU), or a GPU by its number, "
     "as "
     "cuda:1; empty: of an engine for GPUs the one that is current in the calling thread, or the first",
     [](Settings& s, const json& v) { s.load.device = v.get<std::string>(); },
     [](const Settings& s) -> json { return s.load.device; }},
    {"weight-budget", OptionKind::text,
     "How much of the weights is in memory at once: bytes (800MiB, 1.5GB), a part (40%), auto, or none; what does not "
     "fit comes in from the engine's file, or from the host's memory to a GPU, ahead of the layers that read it",
     [](Settings& s, const json& v) {
       s.load.weight_budget = v.get<std::string>();
       static_cast<void>(WeightBudget(s.load.weight_budget));
     },
     [](const Settings& s) -> json { return s.load.weight_budget; }},
};

double percentile_of(const json& value) {
  const auto percentile = value.get<double>();
  if (!(percentile > 0 && percentile <= 100))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("percentile cannot be {}; give a number above 0, and 100 at most", percentile));
  return percentile;
}

/// What says how the engine is made that a calibration runs, and what is a calibration's own.
std::vector<Option> make_calibration_options() {
  std::vector<Option> options = {
      {"method", OptionKind::text, "How ranges are chosen: entropy, minmax, percentile or mse",
       [](Settings& s, const json& v) { s.calibration.method = parse_calibration_method(v.get<std::string>()); },
       [](const Settings& s) -> json { return to_string(s.calibration.method); }, calibration_method_names()},
      {"percentile", OptionKind::number, "Of the method percentile: the share of magnitudes that are not clipped",
       [](Settings& s, const json& v) { s.calibration.percentile = percentile_of(v); },
       [](const Settings& s) -> json { return s.calibration.percentile; }},
      {"results", OptionKind::boolean,
       "Find ranges of convolutions' results, too, which `quantize` puts in steps for ONNX Runtime",
       [](Settings& s, const json& v) { s.calibration.results = v; },
       [](const Settings& s) -> json { return s.calibration.results; }},
      {"format", OptionKind::text,
       "Of the file that is written: json, or tensorrt for a calibration cache of TensorRT's",
       [](Settings& s, const json& v) { s.calibration_format = parse_calibration_format(v.get<std::string>()); },
       [](const Settings& s) -> json { return to_string(s.calibration_format); }, calibration_format_names()},
  };
  for (const std::string_view shared :
       {"device", "threads", "tuning", "timing-cache", "tuning-seconds", "max-operations", "max-memory"})
    options.push_back(*std::find_if(std::begin(options_of_build), std::end(options_of_build),
                                    [&](const Option& option) { return option.name == shared; }));
  return options;
}

}  // namespace

std::string_view to_string(OptionKind kind) {
  constexpr std::string_view names[] = {"boolean", "integer", "number", "text", "list"};
  return names[static_cast<size_t>(kind)];
}

std::span<const Option> options_of(int32_t what) {
  if (what == CAMSHAFT_BUILD) return options_of_build;
  if (what == CAMSHAFT_CONTEXT) return context_options;
  if (what == CAMSHAFT_LOAD) return load_options;
  static const std::vector<Option> calibration_options = make_calibration_options();
  if (what == CAMSHAFT_CALIBRATION) return calibration_options;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} is no kind of options: give CAMSHAFT_BUILD, CAMSHAFT_CONTEXT, CAMSHAFT_CALIBRATION or "
                          "CAMSHAFT_LOAD",
                          what));
}

const Option& find_option(int32_t what, std::string_view name) {
  std::vector<std::string> names;
  for (const Option& option : options_of(what)) {
    if (option.name == name) return option;
    names.emplace_back(option.name);
  }
  throw Error(ErrorCode::invalid_argument, fmt::format("no option is named '{}'{}", name, what_was_meant(name, names)));
}

json parse_value(const Option& option, const std::string& text) {
  const auto parsed = [&](auto number) -> json {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || error != std::errc() || end != text.data() + text.size())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the option '{}' takes {} {}, not '{}'", option.name,
                              option.kind == OptionKind::integer ? "an" : "a", to_string(option.kind), text));
    return number;
  };
  switch (option.kind) {
    case OptionKind::boolean:
      if (text == "true") return true;
      if (text == "false") return false;
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the option '{}' takes true or false, not '{}'", option.name, text));
    case OptionKind::integer:
      return parsed(int64_t{});
    case OptionKind::number:
      return parsed(double{});
    default:
      return text;
  }
}

}  // namespace camshaft::api
