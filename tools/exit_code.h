// What a failure means for whoever called the command.
#pragma once

#include "camshaft/error.hpp"

namespace camshaft::tools {

/// 0 success, 1 internal, 2 invalid argument, 3 invalid or unsupported model, 4 verification failed, 5 a file could not
/// be read or written or is no whole engine, 6 out of memory, 130 interrupted.
int exit_code(ErrorCode code);
/// The same, for --help.
extern const char* const exit_codes_help;

}  // namespace camshaft::tools
