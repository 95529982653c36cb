#include "builder/verification_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <vector>

#include "base/work_scope.h"
#include "builder/sample_inputs.h"
#include "builder/sample_points.h"
#include "ir/ops/size_demands.h"
#include "ir/plugin.h"
#include "reference/evaluate.h"

namespace camshaft {

namespace {

// Sizes to try along axes that nobody named: models have minimum sizes and divisibility of their own, and those of
// sound want some thousand samples.
constexpr int64_t fallback_sizes[] = {64, 32, 16, 128, 224, 8, 1, 1024, 16384};

// Of the first axes, which are 1 otherwise: where no size of the others will do, one of them may be the rows that a
// model looks for its nearest among. Each attempt costs as much more: with all sizes a model of one length was refused
// after minutes.
constexpr int64_t several = 37;
constexpr size_t sizes_with_several = 2;

// Of fallback_sizes, those first with which no operator of the model complains of sizes that differ. Where none is
// such, as with pictures of 384 pixels of which the positions are a table, the first that are come before.
std::vector<int64_t> sizes_to_try(const Graph& model, const std::map<std::string, Dims>& shapes,
                                  const SymbolBindings& symbols) {
  std::vector<int64_t> sizes(std::begin(fallback_sizes), std::end(fallback_sizes));
  const std::vector<ops::SizeDemand> demands = ops::size_demands(model);
  const auto meets_all = [&](int64_t size) {
    SymbolBindings bound;
    try {
      const std::vector<Dims> chosen = choose_input_shapes(model, shapes, symbols, size);
      for (size_t i = 0; i < chosen.size(); ++i)
        bind_symbols(model.shape(model.inputs[i]), chosen[i], "an input", bound);
    } catch (const Error& e) {  // which is said where the sample is made
      if (e.code() == ErrorCode::cancelled) throw;
      return false;
    }
    return std::all_of(demands.begin(), demands.end(), [&](const auto& demand) { return demand.is_met(bound); });
  };
  const auto rest = std::stable_partition(sizes.begin(), sizes.end(), meets_all);
  if (rest != sizes.begin()) return sizes;
  constexpr int64_t largest = 1024;
  std::vector<int64_t> found;
  for (int64_t size = 1; size <= largest && found.size() < 3; ++size)
    if (meets_all(size)) found.push_back(size);
  // Among sizes that do, as those of one patch do, larger ones show more.
  sizes.insert(sizes.begin(), found.rbegin(), found.rend());
  return sizes;
}

// A guess may be too large for the machine, too.
bool is_refusal(const Error& error) {
  // No other inputs make a plugin right.
  if (dynamic_cast<const PluginViolation*>(&error) != nullptr) return false;
  return error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::invalid_model ||
         error.code() == ErrorCode::out_of_memory;
}

// The given inputs, whose shapes join `shapes`, by their place among the inputs of the model.
std::map<size_t, Tensor> place_inputs(const Graph& model, const std::map<std::string, Tensor>& inputs,
                                      std::map<std::string, Dims>& shapes) {
  std::map<size_t, Tensor> placed;
  for (const auto& [name, value] : inputs) {
    size_t i = 0;
    while (i < model.inputs.size() && model.value(model.inputs[i]).name != name) ++i;
    if (i == model.inputs.size())
      throw Error(ErrorCode::invalid_argument, fmt::format("the model has no input '{}' to verify with", name));
    const TensorType& type = model.type(model.inputs[i]);
    const bool is_wrapped = type.dtype == DType::optional && value.dtype() != DType::optional;
    const Tensor tensor = is_wrapped ? Tensor::optional(value) : value;
    if (type.dtype != tensor.dtype())
      throw Error(ErrorCode::invalid_argument, fmt::format("the data to verify with has {} for input '{}', which is {}",
                                                           to_string(tensor.dtype()), name, to_string(type)));
    shapes[name] = tensor.dims();
    placed[i] = tensor;
  }
  return placed;
}

// Operations that a build can do without do not count against its budget: one that has enough for all else is to end
// with a sample that tells less.
class FreeTrial {
 public:
  ~FreeTrial() {
    if (budget_) budget_->give_back_operations(budget_->operations_taken() - before_);
  }

 private:
  std::shared_ptr<Budget> budget_ = current_budget();
  double before_ = budget_ ? budget_->operations_taken() : 0;
};

struct DrawnFloats {
  SampleFloats floats;
  const char* text;
};
constexpr DrawnFloats other_floats[] = {{SampleFloats::positive, "positive numbers"},
                                        {SampleFloats::below_one, "numbers between 0 and 1"},
                                        {SampleFloats::above_one, "numbers above 1"}};

bool is_silent(const Tensor& output) {
  if (!is_floating(output.dtype()) || output.size() == 0) return false;
  const std::vector<double> values = output.to_doubles();
  return std::none_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

// Of which a comparison learns nothing.
int64_t silent_outputs(const VerificationSample& sample) {
  return std::count_if(sample.expected.begin(), sample.expected.end(), is_silent);
}

// Of the inputs that are drawn.
int64_t drawn_floats(const Graph& model, const VerificationSample& sample, const std::map<size_t, Tensor>& given) {
  int64_t count = 0;
  for (size_t i = 0; i < sample.inputs.size(); ++i)
    if (is_floating(model.type(model.inputs[i]).dtype) && !given.contains(i)) count += sample.inputs[i].size();
  return count;
}

}  // namespace

std::variant<VerificationSample, std::string> find_sample(const Graph& model, const SampleOptions& options,
                                                          ThreadPool& pool) {
  EvaluateOptions cancellable;
  cancellable.cancellation = &options.cancellation;
  std::string first_failure;
  std::map<std::string, Dims> shapes = options.shapes;
  const std::map<size_t, Tensor> given = place_inputs(model, options.inputs, shapes);
  const std::map<size_t, Tensor> settled = place_inputs(model, options.settled, shapes);
  // Sizes at which outputs are empty come last. Integers may be indices that no rule recognises: 0 is nearly always one
  // that exists.
  const auto first_accepted = [&](const SymbolBindings& symbols, const std::vector<int64_t>& sizes,
                                  SampleIntegers integers, bool with_empty) -> std::optional<VerificationSample> {
    std::optional<std::vector<Dims>> previous;
    for (const int64_t fallback : sizes) {
      VerificationSample sample;
      sample.seed = options.seed;
      try {
        sample.shapes = choose_input_shapes(model, shapes, symbols, fallback);
        if (sample.shapes == previous) break;  // nothing is free to choose
        previous = sample.shapes;
        if (has_empty_output(model, sample.shapes) != with_empty) continue;
        sample.inputs = sample_inputs(model, sample.shapes, options.seed, integers);
        for (const auto& [i, tensor] : given) sample.inputs[i] = tensor;
        for (const auto& [i, tensor] : settled) sample.inputs[i] = tensor;
        sample.expected = evaluate(model, sample.inputs, pool, cancellable);
        return sample;
      } catch (const Error& e) {
        if (!is_refusal(e)) throw;
        if (first_failure.empty()) first_failure = e.what();
      }
    }
    return std::nullopt;
  };
  // Without integers the other rounds would repeat the first: a loop that doubles its state until it is refused took
  // three times as long.
  const bool draws_integers = std::any_of(model.inputs.begin(), model.inputs.end(),
                                          [&](ValueId id) { return is_integer(model.type(id).dtype); });
  std::vector<SampleIntegers> rounds = {SampleIntegers::any};
  if (draws_integers) rounds.insert(rounds.end(), {SampleIntegers::zeros_and_ones, SampleIntegers::zeros});
  // Instead of a sample that tells nothing of some outputs: the one that tells most.
  const auto telling = [&](VerificationSample first, SampleIntegers integers) {
    const int64_t count = drawn_floats(model, first, given);
    int64_t silent = count > 0 ? silent_outputs(first) : 0;
    VerificationSample best = std::move(first);
    const auto attempt = [&](uint64_t seed, SampleFloats floats, const char* text) {
      if (silent == 0) return;
      VerificationSample other;
      other.shapes = best.shapes;
      other.seed = seed;
      other.drawn = text;
      const FreeTrial free;
      try {
        other.inputs = sample_inputs(model, other.shapes, seed, integers, floats);
        for (const auto* placed : {&given, &settled})
          for (const auto& [i, tensor] : *placed) other.inputs[i] = tensor;
        other.expected = evaluate(model, other.inputs, pool, cancellable);
      } catch (const Error& e) {
        if (!is_refusal(e) && e.code() != ErrorCode::unsupported) throw;  // such as one that the budget has no room for
        return;
      }
      const int64_t remaining = silent_outputs(other);
      if (remaining >= silent) return;
      silent = remaining;
      best = std::move(other);
    };
    constexpr int64_t few = 1000;
    constexpr uint64_t other_seeds = 4, apart = 1000;  // further samples have the next seeds
    for (uint64_t n = 1; n <= other_seeds && count <= few; ++n)
      attempt(options.seed + n * apart, SampleFloats::normal, "");
    for (const auto& [floats, text] : other_floats) attempt(options.seed, floats, text);
    return best;
  };
  std::vector<int64_t> sizes = sizes_to_try(model, shapes, options.symbols);
  for (const bool with_empty : {false, true})
    for (const SampleIntegers integers : rounds)
      if (auto sample = first_accepted(options.symbols, sizes, integers, with_empty))
        return telling(*std::move(sample), integers);
  if (const SymbolBindings symbols = with_first_axes(model, options.symbols, several); symbols != options.symbols) {
    sizes = sizes_to_try(model, shapes, symbols);
    sizes.resize(std::min(sizes.size(), sizes_with_several));
    std::optional<VerificationSample> sample;
    try {
      const FreeTrial free;
      sample = first_accepted(symbols, sizes, SampleIntegers::any, false);
    } catch (const Error& e) {  // it was to show more than what was refused: that is what is said
      if (e.code() != ErrorCode::unsupported) throw;
    }
    if (sample) return telling(*std::move(sample), SampleIntegers::any);
  }
  if (!given.empty())
    throw Error(ErrorCode::invalid_argument, fmt::format("cannot verify on the given inputs: {}", first_failure));
  return first_failure;
}

}  // namespace camshaft
