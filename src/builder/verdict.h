// What a build makes of a verification.
#pragma once

#include <string>
#include <vector>

#include "builder/verify_engine.h"

namespace camshaft {

/// What approximate tactics may take of the error budget: other inputs than the sampled ones may be less kind. A model
/// that amplifies any rounding has the larger budget of its own noise.
constexpr double approximate_share = 0.25;

/// Whether the engine passed and leaves the rest of the budget, on every sample. `excused`: see VerifyOptions.
bool has_margin(const VerifyResult& result, double tolerance, double excused);

/// What failed, for people.
std::string failure_message(const VerifyResult& result, double tolerance, double excused);

/// What nobody can say of an engine that passed, for people.
std::vector<std::string> not_verified(const VerifyResult& result);

}  // namespace camshaft
