#include "tools/metric_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "camshaft/error.hpp"
#include "tools/child_process.h"
#include "tools/temporary_folder.h"

namespace camshaft::tools {

namespace {

std::optional<double> finite_number(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  text = text.substr(0, text.find_last_not_of(blanks) + 1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && std::isfinite(number);
  return is_number ? std::optional<double>(number) : std::nullopt;
}

}  // namespace

MetricScript::MetricScript(std::string command, Cancellation cancellation)
    : command_(std::move(command)), cancellation_(std::move(cancellation)) {}

double MetricScript::score(const Engine& engine) const {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/candidate.engine";
  const ChildStreams streams{folder.path() + "/out", folder.path() + "/err"};
  engine.save(file);
  const char* chosen = std::getenv("CAMSHAFT_PYTHON");
  const std::string python = chosen && *chosen ? chosen : "python3";
  const int status =
      run_child(command_.ends_with(".py") ? std::vector<std::string>{python, command_, file}
                                          : std::vector<std::string>{"sh", "-c", command_ + " \"$1\"", "sh", file},
                streams, cancellation_, "running the metric", "");
  const std::string printed = last_line(streams.out), complaint = last_line(streams.err);
  const std::optional<double> score = finite_number(printed);
  if (status != 0)
    throw Error(ErrorCode::invalid_argument, fmt::format("the metric '{}' failed with status {}{}", command_, status,
                                                         complaint.empty() ? "" : ": " + complaint));
  if (!score)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("the metric '{}' must end by printing a finite number, which is larger for a better engine; "
                    "its last line is '{}'",
                    command_, printed));
  return *score;
}

ScoreDrop::ScoreDrop(const std::string& text) : text_(text), is_relative_(text.ends_with('%')) {
  const auto drop = finite_number(std::string_view(text).substr(0, text.size() - (is_relative_ ? 1 : 0)));
  if (!drop || *drop < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--max-drop cannot be '{}'; give how far the score may fall, as 0.5% or 0.002", text));
  drop_ = is_relative_ ? *drop / 100 : *drop;
}

double ScoreDrop::least(double in_float) const {
  return in_float - (is_relative_ ? drop_ * std::fabs(in_float) : drop_);
}

}  // namespace camshaft::tools
