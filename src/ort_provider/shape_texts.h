// Shapes of inputs as text.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/profile.h"

namespace camshaft::ort_provider {

/// "x:1x3x224x224,ids:1x8". A name that comes again is of the next set. Throws Error(invalid_argument).
std::vector<std::map<std::string, std::vector<int64_t>>> parse_shape_sets(const std::string& option,
                                                                          const std::string& text);

/// One profile for each set; what is left out follows from the others, as camshaft_options_add_profile() says. Throws
/// Error(invalid_argument) when the numbers of sets differ.
std::vector<Profile> parse_profiles(const std::string& smallest, const std::string& optimum,
                                    const std::string& largest);

}  // namespace camshaft::ort_provider
