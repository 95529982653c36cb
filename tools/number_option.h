// Numbers on the command line, checked, with messages that name the option.
#pragma once

#include <cstdint>
#include <string>

namespace camshaft::tools {

/// A whole number within [low, high]. Throws Error(invalid_argument): "threads must be a whole number from 1 to 1024,
/// not '0'". Empty text gives `fallback`.
int64_t parse_whole(const std::string& text, const char* name, int64_t low, int64_t high, int64_t fallback);
/// The number of threads: 1 to 1024; 0, meaning one for each core, for empty text alone.
int parse_threads(const std::string& text);
/// Seconds: 0 to a year.
double parse_seconds(const std::string& text, const char* name, double fallback);
/// A positive number.
double parse_positive(const std::string& text, const char* name, double fallback);

}  // namespace camshaft::tools
