// A process with a Python interpreter.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "server/core/temporary_folder.h"

namespace camshaft::server {

/// What the processes of a model are started with.
struct PythonEnvironment {
  std::filesystem::path interpreter;
  std::shared_ptr<const TemporaryFolder> worker;    ///< has camshaft_worker.py and what it imports
  std::shared_ptr<const TemporaryFolder> unpacked;  ///< the model's own environment; null: it has none
};

/// `execution_environment`: a folder or an archive (that tar unpacks) with bin/python3 in it; empty: the environment
/// variable CAMSHAFT_PYTHON, or python3. Throws ServerError(invalid_argument).
PythonEnvironment find_python(const std::string& execution_environment);

/// Runs a program without a shell, with `socket` as its descriptor 3 (-1: none), and signals as they are at first.
/// Returns its number. Throws ServerError(invalid_argument) that names the program.
pid_t start_process(const std::vector<std::string>& arguments, int socket);

/// Ends it if it runs still, and waits. Returns how it ended: "exited with status 1", "was killed by signal 9
/// (Killed)".
std::string end_process(pid_t process, std::chrono::milliseconds patience);

}  // namespace camshaft::server
