#include "tools/trtexec/refit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>

#include "camshaft/refitter.hpp"
#include "tools/trtexec/summary.h"

namespace camshaft::tools::trtexec {

void refit(const Engine& engine, const std::string& model) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Refitter refitter(engine);
  refitter.set_file(model);
  refitter.refit();
  say('I', fmt::format("Engine refitted in {:.6g} sec.", std::chrono::duration<double>(Clock::now() - start).count()));
}

void print_refittable(const Engine& engine) {
  say('I', "Refittable weights:");
  for (const EngineWeight& weight : Refitter(engine).weights())
    if (weight.fixed_by.empty())
      say('I', fmt::format("  {} of {}[{}], read by {}", weight.name, to_string(weight.dtype),
                           fmt::join(weight.dims, ","), fmt::join(weight.layers, ", ")));
}

}  // namespace camshaft::tools::trtexec
