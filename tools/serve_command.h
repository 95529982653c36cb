// The server and what watches it, which are a program of their own.
#pragma once

#include <CLI/App.hpp>

namespace camshaft::tools {

/// Lists serve and top among the commands, for --help; run_serve_command() runs them.
void list_serve_commands(CLI::App& app);

/// Whether the first argument is one of them.
bool is_serve_command(int argc, const char* const* argv);

/// Becomes `camshaft-server ARGUMENTS`, or `camshaft-server top ARGUMENTS`: the one beside the command, or in its build
/// folder, or on the PATH. Returns only by throwing Error(invalid_argument), where there is none.
[[noreturn]] void run_serve_command(int argc, const char* const* argv);

}  // namespace camshaft::tools
