// camshaft top: a running server, seen from the terminal.
#pragma once

namespace camshaft::server {

/// Whether the first argument is "top".
bool is_top(int argc, const char* const* argv);

/// Runs it with the arguments behind "top"; returns the exit code: 0, 1 for a server that does not answer, 2 for wrong
/// use. Throws nothing.
int run_top(int argc, const char* const* argv) noexcept;

}  // namespace camshaft::server
