#include "tools/tuning_options.h"

#include <fmt/format.h>

#include "camshaft/error.h"
#include "tools/number_option.h"

namespace camshaft {

void TuningArguments::add_to(CLI::App& command) {
  const auto add = [&](const char* name, std::string& target, const char* help, const char* type) {
    command.add_option(name, target, help)->type_name(type)->group("Tuning");
  };
  add("--tuning", mode,
      "How kernels are chosen: measure (default), heuristic (by the cost model alone: faster builds), or locked (as "
      "--lock says)",
      "MODE");
  add("--timing-cache", timing_cache, "Keep what was measured in this file, for later builds of this and other models",
      "FILE");
  add("--tuning-seconds", seconds, "Stop measuring after this long; the cost model decides the rest (default: 60)",
      "S");
  add("--lock", lock, "Take every choice from this lock file: the same model and lock file give the same engine",
      "FILE");
  add("--write-lock", write_lock, "Write the choices of this build to a lock file", "FILE");
}

void TuningArguments::set(BuildOptions& options) const {
  options.tuning = parse_tuning(mode, lock.empty() ? Tuning::measure : Tuning::locked);
  if (options.tuning == Tuning::locked && lock.empty())
    throw Error(ErrorCode::invalid_argument, "--tuning locked needs a lock file: give --lock FILE");
  if (options.tuning != Tuning::locked && !lock.empty())
    throw Error(ErrorCode::invalid_argument, fmt::format("--lock and --tuning {} contradict each other", mode));
  options.timing_cache = timing_cache;
  options.tuning_seconds = parse_seconds(seconds, "tuning-seconds", options.tuning_seconds);
  options.lock = lock;
  options.write_lock = write_lock;
}

Tuning parse_tuning(const std::string& text, Tuning fallback) {
  if (text.empty()) return fallback;
  if (text == "heuristic") return Tuning::heuristic;
  if (text == "measure") return Tuning::measure;
  if (text == "locked") return Tuning::locked;
  throw Error(ErrorCode::invalid_argument, fmt::format("tuning must be heuristic, measure or locked, not '{}'", text));
}

}  // namespace camshaft
