// The server, which is a program of its own.
#pragma once

#include <CLI/App.hpp>

namespace camshaft::tools {

/// Lists serve among the commands, for --help; run_serve_command() runs it.
void list_serve_command(CLI::App& app);

/// Whether the first argument is it.
bool is_serve_command(int argc, const char* const* argv);

/// Becomes `camshaft-server ARGUMENTS`: the one beside the command, or in its build folder, or on the PATH. Returns
/// only by throwing Error(invalid_argument), where there is none.
[[noreturn]] void run_serve_command(int argc, const char* const* argv);

}  // namespace camshaft::tools
