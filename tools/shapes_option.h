// The options --shapes, --min-shapes, --opt-shapes, --max-shapes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "camshaft/options.hpp"

namespace camshaft::tools {

/// "x:1x3x224x224,mask:1x128" by name. A name may hold colons ("input:0:1x3"), no comma. Throws
/// Error(invalid_argument) that quotes the part which cannot be read; `option` is named in it.
NamedShapes parse_shapes(const std::string& text, const std::string& option = "--shapes");
/// Several texts as one; an input that is named twice throws Error(invalid_argument).
NamedShapes parse_shapes(const std::vector<std::string>& texts, const std::string& option = "--shapes");

/// The texts of --min-shapes, --opt-shapes and --max-shapes, one a profile.
struct ProfileTexts {
  std::vector<std::string> min, opt, max;
};
/// One profile for each time that the options were given. What is left out of a range follows from the rest: no opt
/// means the largest (the smallest without one), no min and no max mean the opt shape. Throws Error(invalid_argument).
std::vector<Profile> parse_profiles(const ProfileTexts& texts);
/// A profile of exactly these shapes.
Profile fixed_profile(const NamedShapes& shapes);

}  // namespace camshaft::tools
