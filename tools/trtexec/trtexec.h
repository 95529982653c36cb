// camshaft trtexec: TensorRT's command of that name, its flags, lines and files.
#pragma once

#include <span>
#include <string>

namespace camshaft::tools::trtexec {

/// Builds or loads an engine and measures it, as the flags say. Ends with "&&&& PASSED" or "&&&& FAILED"; returns the
/// exit code, 0 or 1. Throws nothing but std::bad_alloc.
int run(std::span<const std::string> arguments);

}  // namespace camshaft::tools::trtexec
