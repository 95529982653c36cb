#include "optimize/pass_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace camshaft {

namespace {

void check_pass(const Pass& pass, Facts settled) {
  if (const Facts missing = pass.needs.without(settled); !missing.empty())
    throw Error(ErrorCode::internal, fmt::format("the pass '{}' needs {}, which no pass before it settles", pass.name,
                                                 to_string(missing.first())));
  if (const Facts early = pass.before.common(settled); !early.empty())
    throw Error(ErrorCode::internal,
                fmt::format("the pass '{}' must come before {} are settled", pass.name, to_string(early.first())));
}

}  // namespace

std::string_view to_string(Fact fact) {
  constexpr std::string_view names[] = {"layouts", "attention", "joined contractions", "regions", "storage",
                                        "images",  "chains"};
  return names[static_cast<size_t>(fact)];
}

void check_order(const BackendPasses& passes) {
  Facts settled;
  for (const PassList* list : {&passes.meaning, &passes.form, &passes.precision})
    for (const PassStep& step : *list)
      // In a second round the first passes of a set come behind its last ones; a third would tell nothing new.
      for (int round = 0; round < std::min(step.most_rounds, 2); ++round)
        for (const Pass& pass : step.passes) {
          check_pass(pass, settled);
          settled.add(pass.settles);
        }
}

}  // namespace camshaft
