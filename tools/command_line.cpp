#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>
#include <vector>

#include "camshaft/load_plugin.hpp"
#include "camshaft/logger.hpp"
#include "tools/commands.h"
#include "tools/exit_code.h"
#include "tools/interrupt.h"
#include "tools/python_command.h"
#include "tools/serve_command.h"
#include "tools/trtexec/trtexec.h"

namespace camshaft::tools {

namespace {

constexpr const char* examples =
    "Examples:\n"
    "  camshaft build model.onnx -o model.engine                   compile and verify\n"
    "  camshaft run model.engine --inputs in.npz --outputs out.npz\n"
    "  camshaft bench model.engine --shapes x:8x3x224x224 --threads 2 --profile\n"
    "  camshaft verify model.onnx --against onnxruntime\n"
    "  camshaft inspect model.engine\n"
    "  camshaft report model.engine --model model.onnx -o report.html\n"
    "'camshaft COMMAND --help' and 'camshaft help COMMAND' explain a command.\n\n";

int fail(ErrorCode code, const std::string& message) {
  fmt::print(stderr, "camshaft: error: {}\n", message);
  return code == ErrorCode::cancelled ? interrupted_exit_code() : exit_code(code);
}

// A message that could not be written (a full disk behind `> file`) is a failure like any other.
int finish(int code) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  return fail(ErrorCode::io, "the standard output could not be written");
}

std::string no_command(const char* const* argv) {
  return fmt::format("there is no command '{}'", argv[1]);
}

/// What CLI11 says of a line without a command does not say what is wrong with it.
std::string complaint(const CLI::ParseError& error, bool has_command, int argc, const char* const* argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (has_command) return error.what();
  if (first.empty()) return "a command is required";
  if (first.starts_with('-')) return fmt::format("there is no option '{}', or a command is missing behind it", first);
  return no_command(argv);
}

int parse_and_run(int argc, const char* const* argv) {
  CLI::App app("Turns ONNX models into engines tuned for this machine, and runs them.", "camshaft");
  app.set_version_flag("--version", "camshaft " CAMSHAFT_VERSION, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(1);
  app.get_formatter()->column_width(38);
  app.get_formatter()->label("TEXT", "");  // of positionals, whose names say what they are
  app.footer(examples + std::string(exit_codes_help));
  app.fallthrough();
  bool verbose = false;
  app.add_flag("-v,--verbose", verbose, "Print what the library does to stderr");
  std::vector<std::string> plugins;
  app.add_option("--plugin", plugins,
                 "Load operators: a library, an ONNX model of functions, or 'my::Op(x) = x * tanh(x)'; may be repeated")
      ->type_name("FILE|TEXT")
      ->allow_extra_args(false);
  std::vector<std::string> custom_ops;
  app.add_option("--ort-custom-ops", custom_ops,
                 "Load the operators of a library made for ONNX Runtime (RegisterCustomOps); may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
  bool guards = false, verify_plugins = false;
  app.add_flag("--plugin-guards", guards,
               "Run plugins on copies between guard zones, which find what they write where they must not");
  app.add_flag("--plugin-verify", verify_plugins,
               "Builds run every tactic of every plugin against its reference evaluation, over sizes with tails");
  const std::vector<Command> commands = {
      add_build_command(app),   add_calibrate_command(app), add_run_command(app),      add_bench_command(app),
      add_verify_command(app),  add_simplify_command(app),  add_quantize_command(app), add_refit_command(app),
      add_inspect_command(app), add_report_command(app),    add_devices_command(app),  add_operators_command(app)};
  app.add_subcommand("trtexec", "Build and measure as TensorRT's trtexec does: its flags, lines and files");
  list_serve_commands(app);
  list_python_commands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands().empty())  // 'biuld --help'
      return fail(ErrorCode::invalid_argument, no_command(argv) + "; see 'camshaft --help'");
    return finish(app.exit(help));
  } catch (const CLI::ParseError& error) {
    std::string command;
    for (const Command& c : commands)
      if (c.parser->parsed()) command = " " + c.parser->get_name();
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}; see 'camshaft{} --help'", complaint(error, !command.empty(), argc, argv), command));
  }
  if (verbose) set_log_level(LogLevel::debug);
  set_plugin_checks(guards, verify_plugins);
  for (const std::string& plugin : plugins) load_plugin(plugin);
  for (const std::string& library : custom_ops) load_ort_custom_ops(library);
  for (const Command& command : commands)
    if (command.parser->parsed()) return finish(command.run());
  return fail(ErrorCode::internal, "no command was run");
}

// Where the arguments of trtexec begin: behind that word, or behind the program's name where it is called so; 0: it is
// another command. Its flags are read by itself, as they are spelled otherwise.
int first_of_trtexec(int argc, const char* const* argv) {
  if (argc > 0 && std::filesystem::path(argv[0]).filename().string().ends_with("trtexec")) return 1;
  return argc > 1 && std::string_view(argv[1]) == "trtexec" ? 2 : 0;
}

}  // namespace

int run_command_line(int argc, const char* const* argv) noexcept {
  try {
    if (argc > 1 && std::string_view(argv[1]) == "help") {  // as of git: help COMMAND is COMMAND --help
      std::vector<const char*> asked = {argv[0]};
      asked.insert(asked.end(), argv + 2, argv + argc);
      asked.push_back("--help");
      return run_command_line(static_cast<int>(asked.size()), asked.data());
    }
    if (const int begin = first_of_trtexec(argc, argv); begin > 0)
      return finish(trtexec::run(std::vector<std::string>(argv + begin, argv + argc)));
    if (is_serve_command(argc, argv)) run_serve_command(argc, argv);
    if (is_python_command(argc, argv)) run_python_command(argc, argv);
    return parse_and_run(argc, argv);
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "out of memory; smaller shapes or fewer threads need less");
  } catch (const std::system_error& error) {
    return fail(ErrorCode::internal, fmt::format("the system refused: {}", error.what()));
  } catch (const std::exception& error) {
    return fail(ErrorCode::internal, fmt::format("internal error: {}", error.what()));
  } catch (...) {
    return fail(ErrorCode::internal, "internal error of unknown kind");
  }
}

}  // namespace camshaft::tools
