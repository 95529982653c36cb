#include "tools/tuning_options.h"

#include <fmt/format.h>

#include "camshaft/error.hpp"
#include "tools/number_option.h"

namespace camshaft::tools {

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
      "SECONDS");
  add("--lock", lock, "Take every choice from this lock file: the same model and lock file give the same engine",
      "FILE");
  add("--write-lock", write_lock, "Write the choices of this build to a lock file", "FILE");
}

void TuningArguments::set(BuildOptions& options) const {
  const std::string chosen = !mode.empty() ? mode : lock.empty() ? "measure" : "locked";
  options.set("tuning", chosen);
  if (chosen == "locked" && lock.empty())
    throw Error(ErrorCode::invalid_argument, "--tuning locked needs a lock file: give --lock FILE");
  if (chosen != "locked" && !lock.empty())
    throw Error(ErrorCode::invalid_argument, fmt::format("--lock and --tuning {} contradict each other", mode));
  options.set("timing-cache", timing_cache).set("lock", lock).set("write-lock", write_lock);
  if (!seconds.empty()) options.set("tuning-seconds", parse_seconds(seconds, "tuning-seconds", 0));
}

}  // namespace camshaft::tools
