// Optimisation profiles: the sizes that an engine with dynamic shapes is made for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace camshaft {

/// The smallest, the usual and the largest shape of one input, each of the input's rank.
struct ShapeRange {
  std::vector<int64_t> min, opt, max;
};

/// One range an input, by name; inputs that are not named take any size. Kernels are chosen for `opt`. A shape outside
/// every profile of an engine is refused at run time; an engine without profiles takes any shape.
struct Profile {
  std::map<std::string, ShapeRange> inputs;
};

}  // namespace camshaft
