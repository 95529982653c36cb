#include "server/options/serve_options.h"

#include <algorithm>
#include <vector>

#include "server/core/status.h"
#include "server/options/flag.h"

namespace camshaft::server {

namespace {

// How many letters must change to make one text of the other.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string nearest_flag(const std::string& name) {
  std::string best;
  size_t distance = name.size();
  for (const Flag& flag : flags()) {
    const size_t d = edit_distance(name, flag.name);
    if (d < distance) best = flag.name, distance = d;
  }
  return best;
}

// The value behind '=', or the next argument, where that is none of a flag.
std::string take_value(const Flag& flag, const std::string& argument, const std::vector<std::string>& arguments,
                       size_t& at) {
  const size_t equals = argument.find('=');
  if (equals != std::string::npos) return argument.substr(equals + 1);
  const bool has_next = at + 1 < arguments.size() && !arguments[at + 1].starts_with("--");
  if (has_next) return arguments[++at];
  if (flag.value == "BOOL") return "true";
  throw OptionError("--" + flag.name + " needs a value: --" + flag.name + "=" + flag.value);
}

bool take_ignored(ServeOptions& options, const std::string& name, bool has_equals,
                  const std::vector<std::string>& arguments, size_t& at) {
  for (const IgnoredFlag& flag : ignored_flags()) {
    if (flag.name != name) continue;
    if (flag.has_value && !has_equals && at + 1 < arguments.size() && !arguments[at + 1].starts_with("--")) ++at;
    options.notes.push_back("--" + name + " has no effect here: " + flag.reason);
    return true;
  }
  return false;
}

void check_options(const ServeOptions& options) {
  if (!options.allow_http && !options.allow_grpc)
    throw OptionError("--allow-http=false and --allow-grpc=false leave nothing to listen to");
  const auto& startup = options.server.models.startup_models;
  if (startup.size() > 1 && std::find(startup.begin(), startup.end(), "*") != startup.end())
    throw OptionError("--load-model=* loads all models: no other --load-model may be given");
  if (options.server.models.repositories.empty())
    throw OptionError("no model repository is given: --model-repository=DIR, where DIR/NAME/1/model.onnx is a model");
}

}  // namespace

ServeOptions parse_command_line(const std::vector<std::string>& arguments) {
  ServeOptions options;
  for (size_t at = 0; at < arguments.size(); ++at) {
    const std::string& argument = arguments[at];
    if (argument == "-h") {
      options.help = true;
      continue;
    }
    if (!argument.starts_with("--"))
      throw OptionError("unexpected argument '" + argument + "': flags are given as --name=value (--help lists them)");
    const std::string name = argument.substr(2, argument.find('=') - 2);
    const auto flag =
        std::find_if(flags().begin(), flags().end(), [&](const Flag& known) { return known.name == name; });
    if (flag == flags().end()) {
      if (take_ignored(options, name, argument.find('=') != std::string::npos, arguments, at)) continue;
      const std::string nearest = nearest_flag(name);
      throw OptionError("there is no flag --" + name + (nearest.empty() ? "" : ": did you mean --" + nearest + "?") +
                        " (--help lists them)");
    }
    try {
      flag->apply(options, flag->value.empty() ? "" : take_value(*flag, argument, arguments, at));
    } catch (const ServerError& error) {
      throw OptionError("--" + name + ": " + error.what());
    }
  }
  if (!options.help && !options.version) check_options(options);
  options.http.metrics_port = options.allow_metrics ? options.metrics_port : -1;
  options.http.metrics.enabled = options.allow_metrics;
  options.server.models.latency_summaries = options.allow_metrics && options.http.metrics.summary_latencies;
  return options;
}

std::string help_text() {
  constexpr size_t column = 46;
  std::string text =
      "camshaft-server: models over HTTP and gRPC, as Triton has them.\n\n"
      "  camshaft-server --model-repository=DIR\n\n"
      "serves DIR/<model>/<version>/model.onnx (built when it is loaded, and kept), model.plan (an engine of\n"
      "`camshaft build`) and model.py. Flags, with what holds without them:\n";
  std::string group;
  for (const Flag& flag : flags()) {
    if (flag.group != group) text += "\n" + flag.group + "\n";
    group = flag.group;
    std::string left = "  --" + flag.name + (flag.value.empty() ? "" : "=" + flag.value);
    left.resize(std::max(column, left.size() + 1), ' ');
    text += left + flag.help + "\n";
  }
  return text;
}

}  // namespace camshaft::server
