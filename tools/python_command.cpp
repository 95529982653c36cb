#include "tools/python_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "camshaft/error.hpp"

namespace camshaft::tools {

namespace {

namespace fs = std::filesystem;

struct PythonCommand {
  const char* name;
  const char* description;
  const char* module = "camshaft.jobs.__main__";
  const char* extra = "jobs";  // of the wheel, which has what the module needs
};

constexpr PythonCommand commands[] = {
    {"job", "Run the job that a YAML or JSON file describes, and write its report"},
    {"convert", "Build an engine as a job, with a report of what was done and what would gain"},
    {"optimize", "Build in several precisions, measure them, and keep the fastest that is accurate enough"},
    {"benchmark", "Measure engines beside ONNX Runtime, OpenVINO and PyTorch: table, JSON and picture"},
    {"llm", "Build engines of language models from Hugging Face folders, talk to them, and measure them",
     "camshaft.llm.__main__", "llm"},
};

// What Python runs, with the module and the extra before the arguments. The working folder, which -c would search
// first, is left out: a folder "camshaft" there is not the package. The package is looked for on its own, so that what
// is missing within it is not taken for it.
constexpr const char* program =
    "import sys\n"
    "if sys.path[:1] == ['']: del sys.path[0]\n"
    "import importlib.util\n"
    "module, extra, *arguments = sys.argv[1:]\n"
    "if importlib.util.find_spec('camshaft') is None:\n"
    "    print(\"camshaft: error: 'camshaft \" + arguments[0] + \"' needs the Python package camshaft, which\", "
    "sys.executable, \"does not have; install it there (pip install 'camshaft[\" + extra + \"]'), or name another "
    "Python by CAMSHAFT_PYTHON\", file=sys.stderr)\n"
    "    sys.exit(2)\n"
    "try:\n"
    "    main = importlib.import_module(module).main\n"
    "except KeyboardInterrupt:\n"
    "    sys.exit(130)\n"
    "sys.exit(main(arguments))\n";

fs::path own_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

std::string python() {
  if (const char* chosen = std::getenv("CAMSHAFT_PYTHON"); chosen && *chosen) return chosen;
  const fs::path beside = own_folder() / "python3";  // of a virtual environment that has the wheel
  return access(beside.c_str(), X_OK) == 0 ? beside.string() : "python3";
}

// In a build folder the package lies beside the command's folder, and Python does not know it.
void add_package_of_build_folder() {
  const fs::path packages = own_folder().parent_path() / "python";
  std::error_code ignored;
  if (!fs::exists(packages / "camshaft" / "_native.abi3.so", ignored)) return;
  const char* before = std::getenv("PYTHONPATH");
  const std::string path = packages.string() + (before && *before ? std::string(":") + before : "");
  setenv("PYTHONPATH", path.c_str(), 1);
}

const PythonCommand* find_command(std::string_view name) {
  return std::find_if(std::begin(commands), std::end(commands),
                      [&](const PythonCommand& command) { return command.name == name; });
}

}  // namespace

void list_python_commands(CLI::App& app) {
  for (const PythonCommand& command : commands) app.add_subcommand(command.name, command.description);
}

bool is_python_command(int argc, const char* const* argv) {
  return argc > 1 && find_command(argv[1]) != std::end(commands);
}

void run_python_command(int argc, const char* const* argv) {
  add_package_of_build_folder();
  const std::string interpreter = python();
  const PythonCommand& command = *find_command(argv[1]);
  std::vector<const char*> arguments = {interpreter.c_str(), "-c", program, command.module, command.extra};
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  arguments.push_back(nullptr);
  execvp(interpreter.c_str(), const_cast<char* const*>(arguments.data()));
  throw Error(ErrorCode::invalid_argument,
              fmt::format("'camshaft {}' needs Python: {} cannot be run ({}); install Python 3.9 or newer with the "
                          "package camshaft, or name another by CAMSHAFT_PYTHON",
                          command.name, interpreter, std::strerror(errno)));
}

}  // namespace camshaft::tools
