// Names in messages.
#pragma once

#include <string>
#include <vector>

namespace camshaft {

/// "'a', 'b', 'c', …": the first three.
std::string name_list(const std::vector<std::string>& names);

}  // namespace camshaft
