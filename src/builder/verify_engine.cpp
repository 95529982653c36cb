#include "builder/verify_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/seconds_since.h"
#include "base/work_scope.h"
#include "builder/sample_inputs.h"
#include "builder/sample_points.h"
#include "reference/operations.h"
#include "runtime/adapters.h"
#include "runtime/engine_impl.h"

namespace camshaft {

namespace {

using MadeSample = std::variant<VerificationSample, std::string>;

// The worse of an output on two samples; what both compared counts.
void take_worse(OutputError& error, const OutputError& other) {
  const int64_t compared = std::max(error.compared, other.compared);
  const bool worse = error.exact ? other.differing > error.differing : other.relative() > error.relative();
  const bool telling = error.telling && other.telling;
  const std::string doubt = error.doubt.empty() ? other.doubt : error.doubt;
  if (worse) error = other;
  error.compared = compared;
  error.telling = telling;
  error.doubt = doubt;
}

class Verification {
 public:
  Verification(const Graph& model, const Engine& engine, const VerifyOptions& options, ThreadPool& pool)
      : model_(model), engine_(engine), options_(options), pool_(pool) {}

  VerifyResult run() {
    const SymbolBindings& optimum = engine_.impl()->optimum;
    const auto start = std::chrono::steady_clock::now();
    const std::string first_key = key_of(optimum, options_.seed);
    const MadeSample first = make(first_key, options_.inputs, options_.shapes, optimum, options_.seed);
    if (const auto* refusal = std::get_if<std::string>(&first)) {
      result_.unverified = fmt::format("the reference evaluation refuses the inputs that were made up: {}", *refusal);
      return std::move(result_);
    }
    judge(std::get<VerificationSample>(first), first_key, options_.seed);
    const std::vector<Dims> shapes = std::get<VerificationSample>(first).shapes;
    first_seconds_ = seconds_since(start);
    first_work_ = std::max(work_of(model_, shapes), 1.0);
    tried_.insert({options_.seed, shapes});
    further_start_ = std::chrono::steady_clock::now();
    const bool sizes_vary = options_.inputs.empty() && options_.shapes.empty();
    const int64_t adapters = chooses_adapter() ? options_.adapters : 0;
    for (const SamplePoint& point :
         further_points(model_, engine_.impl()->profiles, optimum, shapes, options_.seed, adapters))
      if (result_.passed && !inputs_are_given() && (sizes_vary || point.seed != options_.seed)) judge(point);
    for (size_t i = 0; i < options_.further_inputs.size() && result_.passed; ++i)
      judge_given(options_.further_inputs[i], i + 1);
    return std::move(result_);
  }

 private:
  // The caller gave all inputs, if there are any.
  bool inputs_are_given() const { return options_.inputs.size() >= model_.inputs.size(); }

  bool chooses_adapter() const { return options_.adapters > 0 && !options_.inputs.contains(std::string(lora_input)); }
  // The first seed has the first adapter, the last one none.
  int64_t adapter_of(uint64_t seed) const {
    return static_cast<int64_t>(seed - options_.seed + 1) % (options_.adapters + 1);
  }

  static std::string key_of(const SymbolBindings& symbols, uint64_t seed) {
    std::string key = fmt::format("{}", seed);
    for (const auto& [name, size] : symbols) key += fmt::format(",{}={}", name, size);
    return key;
  }

  MadeSample make(const std::string& key, const std::map<std::string, Tensor>& inputs,
                  const std::map<std::string, Dims>& shapes, const SymbolBindings& symbols, uint64_t seed) const {
    if (options_.known)
      if (const auto it = options_.known->samples.find(key); it != options_.known->samples.end()) return it->second;
    SampleOptions wanted;
    wanted.seed = seed;
    wanted.shapes = shapes;
    wanted.inputs = inputs;
    if (chooses_adapter()) wanted.settled.emplace(lora_input, Tensor::of<int64_t>(DType::i64, {}, {adapter_of(seed)}));
    wanted.symbols = symbols;
    wanted.cancellation = options_.cancellation;
    MadeSample made = find_sample(model_, wanted, pool_);
    if (options_.known) options_.known->samples.emplace(key, made);
    return made;
  }

  // Why a sample of these sizes is left out; empty: it is not. What it is expected to take is measured by the first.
  std::string excess(const std::vector<Dims>& shapes, double share) const {
    const double work = work_of(model_, shapes);
    const double expected = first_seconds_ * work / first_work_;
    if (expected > share * options_.seconds || seconds_since(further_start_) + expected > options_.seconds)
      return fmt::format("no time left of {} s", options_.seconds);
    constexpr double runs = 10;  // with those of noise
    if (const auto budget = current_budget();
        budget && runs * operations_of(model_, bind_inputs(model_, shapes)) > budget->operations_left())
      return "too few operations left of --max-operations (the option 'max-operations')";
    return "";
  }

  // Which of the point's sizes, as they are or in place of each other, the reference accepts.
  void judge(const SamplePoint& point) {
    std::string refusal;
    for (const SymbolBindings& symbols : point.either) {
      const std::vector<Dims> shapes = choose_input_shapes(model_, options_.shapes, symbols);
      if (tried_.contains({point.seed, shapes})) return;
      if (!point.is_promised && has_empty_output(model_, shapes)) continue;
      refusal = excess(shapes, point.share);
      if (!refusal.empty()) continue;
      const std::string key = key_of(symbols, point.seed);
      const MadeSample made = make(key, options_.inputs, options_.shapes, symbols, point.seed);
      if (const auto* sample = std::get_if<VerificationSample>(&made)) {
        if (tried_.insert({point.seed, sample->shapes}).second) refusal = judge(*sample, key, point.seed);
        break;
      }
      refusal = std::get<std::string>(made);
    }
    if (point.is_promised && !refusal.empty()) result_.left_out.push_back(fmt::format("{}: {}", point.name, refusal));
  }

  // Further inputs of the caller's: number 1 and on.
  void judge_given(const std::map<std::string, Tensor>& inputs, size_t number) {
    std::map<std::string, Dims> shapes = options_.shapes;
    for (const auto& [name, tensor] : inputs) shapes[name] = tensor.dims();
    const SymbolBindings& optimum = engine_.impl()->optimum;
    std::string refusal = excess(choose_input_shapes(model_, shapes, optimum), 1);
    if (refusal.empty()) {
      const std::string key = fmt::format("further inputs {}", number);
      const MadeSample made = make(key, inputs, options_.shapes, optimum, options_.seed);
      const auto* sample = std::get_if<VerificationSample>(&made);
      refusal = sample ? judge(*sample, key, options_.seed) : std::get<std::string>(made);
    }
    if (!refusal.empty()) result_.left_out.push_back(fmt::format("further inputs {}: {}", number, refusal));
  }

  // Gives why the sample says nothing, if so: the first alone must say something.
  std::string judge(const VerificationSample& sample, const std::string& key, uint64_t seed) {
    SampleRules rules{options_.tolerance,    options_.sensitivity_above, options_.rounding_noise, seed,
                      options_.cancellation, inputs_are_given(),         options_.excused};
    rules.names_culprit = options_.names_culprit;
    rules.usual_tolerance = options_.usual_tolerance;
    if (options_.known) rules.known_noise = &options_.known->noise[key];
    const bool is_first = result_.of_samples.empty();
    SampleVerdict verdict;
    try {
      verdict = verify_sample(model_, engine_, sample, rules, pool_);
    } catch (const Error& error) {
      // The reference takes these sizes.
      if (is_first || (error.code() != ErrorCode::invalid_argument && error.code() != ErrorCode::invalid_model)) throw;
      verdict.layers.culprit = fmt::format("none: the engine does not run: {}", error.what());
    }
    if (!is_first && !verdict.unverified.empty()) return verdict.unverified;
    std::string& text = result_.samples.emplace_back(describe_sample(model_, sample.shapes, sample.seed));
    if (!sample.drawn.empty()) text += ", " + sample.drawn;
    if (chooses_adapter()) text += fmt::format(", {} {}", lora_input, adapter_of(seed));
    result_.of_samples.push_back(verdict);
    if (is_first || !verdict.passed)
      static_cast<SampleVerdict&>(result_) = std::move(verdict);
    else
      merge(verdict);
    return "";
  }

  void merge(const SampleVerdict& verdict) {
    for (size_t o = 0; o < result_.outputs.size(); ++o) take_worse(result_.outputs[o], verdict.outputs[o]);
    result_.sensitivity = std::max(result_.sensitivity, verdict.sensitivity);
    result_.by_layers = result_.by_layers || verdict.by_layers;
    result_.layers.judged += verdict.layers.judged;
    result_.layers.undecided += verdict.layers.undecided;
    result_.layers.worst = std::max(result_.layers.worst, verdict.layers.worst);
  }

  const Graph& model_;
  const Engine& engine_;
  const VerifyOptions& options_;
  ThreadPool& pool_;
  double first_seconds_ = 0, first_work_ = 1;
  std::chrono::steady_clock::time_point further_start_;
  std::set<std::pair<uint64_t, std::vector<Dims>>> tried_;  // seeds and shapes
  VerifyResult result_;
};

}  // namespace

const VerificationSample* KnownReference::sample() const {
  for (const auto& [description, made] : samples)
    if (const auto* sample = std::get_if<VerificationSample>(&made)) return sample;
  return nullptr;
}

VerifyResult verify_engine(const Graph& model, const Engine& engine, const VerifyOptions& options, ThreadPool& pool) {
  return Verification(model, engine, options, pool).run();
}

}  // namespace camshaft
