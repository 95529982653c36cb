// Sizes of memory, for people.
#pragma once

#include <cstddef>
#include <string>

namespace camshaft::tools {

/// "512 bytes", "1.5 MiB".
std::string format_bytes(size_t bytes);

}  // namespace camshaft::tools
