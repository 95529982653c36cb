// The commands that the Python package provides.
#pragma once

#include <CLI/App.hpp>

namespace camshaft::tools {

/// Lists job, convert, optimize and benchmark among the commands, for --help; run_python_command() runs them.
void list_python_commands(CLI::App& app);

/// Whether the first argument is one of them.
bool is_python_command(int argc, const char* const* argv);

/// Becomes `python -m camshaft.jobs ARGUMENTS`, by $CAMSHAFT_PYTHON, the Python of the environment that the command is
/// installed in, or `python3`: signals and the exit code are Python's. Returns only by throwing
/// Error(invalid_argument), where there is no Python; where there is no package, the Python says so and ends with 2.
[[noreturn]] void run_python_command(int argc, const char* const* argv);

}  // namespace camshaft::tools
