// The sub-commands of `camshaft`, one file each.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace camshaft::tools {

/// A sub-command added to the parser, and what it does once the command line is parsed: returns the exit code, or
/// throws Error.
struct Command {
  CLI::App* parser;
  std::function<int()> run;
};

Command add_build_command(CLI::App& app);
Command add_calibrate_command(CLI::App& app);
Command add_run_command(CLI::App& app);
Command add_bench_command(CLI::App& app);
Command add_verify_command(CLI::App& app);
Command add_simplify_command(CLI::App& app);
Command add_quantize_command(CLI::App& app);
Command add_refit_command(CLI::App& app);
Command add_inspect_command(CLI::App& app);
Command add_report_command(CLI::App& app);
Command add_devices_command(CLI::App& app);
Command add_operators_command(CLI::App& app);

/// Parses a command line and runs its command. Failures are printed to stderr, one message each; returns the exit code
/// (see exit_code.h). Throws nothing.
int run_command_line(int argc, const char* const* argv) noexcept;

}  // namespace camshaft::tools
