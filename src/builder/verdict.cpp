#include "builder/verdict.h"

#include <fmt/format.h>

#include <algorithm>

namespace camshaft {

namespace {

bool has_margin(const SampleVerdict& sample, double tolerance, double excused) {
  if (!sample.passed) return false;
  if (sample.by_layers) return sample.layers.worst <= approximate_share;
  const double budget = std::max(tolerance, excused * sample.sensitivity);
  return std::all_of(sample.outputs.begin(), sample.outputs.end(), [&](const OutputError& e) {
    return e.exact ? e.differing <= approximate_share * 4 * e.undecided : e.relative() <= approximate_share * budget;
  });
}

}  // namespace

std::string failure_message(const VerifyResult& result, double tolerance, double excused) {
  std::string message = fmt::format("the engine's results differ from the reference evaluation of the model ({}):",
                                    result.samples.back());
  for (const OutputError& e : result.outputs)
    if (!e.passed && !e.doubt.empty())
      message += fmt::format("\n  output '{}': {}", e.output, e.doubt);
    else if (result.by_layers)
      message += fmt::format("\n  output '{}' cannot tell: rounding moves it by {:.2g} of its scale; a layer does",
                             e.output, result.sensitivity);
    else if (!e.passed && e.exact)
      message +=
          fmt::format("\n  output '{}': {:.2g}% of its elements differ, by up to {:.3g}; rounding decides {:.2g}%",
                      e.output, 100 * e.differing, e.max_error, 100 * e.undecided);
    else if (!e.passed)
      message += fmt::format("\n  output '{}': error {:.3g} of scale {:.3g}, allowed {:.1g} of it", e.output,
                             e.max_error, e.scale, std::max(tolerance, excused * result.sensitivity));
  if (!result.layers.culprit.empty()) message += "\n  the first layer that diverges is " + result.layers.culprit;
  return message;
}

bool has_margin(const VerifyResult& result, double tolerance, double excused) {
  return result.unverified.empty() &&
         std::all_of(result.of_samples.begin(), result.of_samples.end(),
                     [&](const SampleVerdict& sample) { return has_margin(sample, tolerance, excused); });
}

std::vector<std::string> not_verified(const VerifyResult& result) {
  std::vector<std::string> texts = result.left_out;
  for (const OutputError& e : result.outputs)
    if (e.compared == 0) texts.push_back(fmt::format("output '{}': it is empty, or has no finite number", e.output));
  return texts;
}

}  // namespace camshaft
