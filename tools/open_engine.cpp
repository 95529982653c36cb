#include "tools/open_engine.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <set>

#include "camshaft/builder.hpp"
#include "camshaft/error.hpp"
#include "tools/atomic_file.h"
#include "tools/interrupt.h"

namespace camshaft::tools {

OpenedEngine open_engine(const std::string& path, const std::string& device, int threads, const NamedShapes& shapes,
                         Progress& progress, const char* tuning, const LimitOptions& limits,
                         const std::string& weight_budget) {
  const bool is_engine = Engine::is_engine_file(path);
  const auto start = std::chrono::steady_clock::now();
  const auto open = [&] {
    if (is_engine) return Engine::load(path, LoadOptions().set("device", device).set("weight-budget", weight_budget));
    BuildOptions options;
    if (!device.empty()) options.set("device", device);
    options.set("threads", threads).set("verify", false).set("tuning", tuning);
    limits.set(options);
    options.set_progress(progress.callback()).set_cancellation(cancel_on_interrupt());
    if (!shapes.empty()) options.add_profile(fixed_profile(shapes));
    Engine built = Builder(std::move(options)).build(path);
    built.set_weight_budget(weight_budget);
    return built;
  };
  Engine engine = open();
  progress.clear();
  return {std::move(engine), !is_engine,
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

void check_writable(const std::string& path) {
  if (!path.empty()) AtomicFile probe(path);
}

void check_distinct(const std::string& input, const std::string& output) {
  std::error_code ignored;
  if (!input.empty() && !output.empty() && std::filesystem::equivalent(input, output, ignored))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the output would overwrite '{}', which is read; name another file", input));
}

void check_one_purpose(const std::vector<std::string>& written) {
  std::set<std::filesystem::path> files;
  for (const std::string& path : written) {
    if (path.empty()) continue;
    std::error_code ignored;
    if (!files.insert(std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored)).second)
      throw Error(ErrorCode::invalid_argument, fmt::format("'{}' is to hold two things; name another file", path));
  }
}

}  // namespace camshaft::tools
