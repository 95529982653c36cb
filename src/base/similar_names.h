// Names that somebody may have meant by one that there is not.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace camshaft {

/// True for names that are few letters apart, and where one is part of the other.
bool is_similar_name(std::string_view given, std::string_view known);

/// "; did you mean 'strides'?" with all of `known` that are similar; else "; there are: a, b", and nothing of more than
/// 40.
std::string what_was_meant(std::string_view given, std::span<const std::string> known);

}  // namespace camshaft
