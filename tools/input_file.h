// Whole files, read into memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace camshaft::tools {

/// The bytes of a file. Throws Error(io) that names the path and says why: not found, no permission, a directory, not a
/// regular file, empty.
std::vector<std::byte> read_file(const std::string& path);

}  // namespace camshaft::tools
