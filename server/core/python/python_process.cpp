#include "server/core/python/python_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "server/core/status.h"
#include "server_python.h"

namespace camshaft::server {
namespace {

namespace fs = std::filesystem;

/// One folder for all models of the process, which goes with the last one.
std::shared_ptr<const TemporaryFolder> worker_folder() {
  static std::mutex mutex;
  static std::weak_ptr<const TemporaryFolder> kept;
  const std::lock_guard lock(mutex);
  if (std::shared_ptr<const TemporaryFolder> folder = kept.lock()) return folder;
  auto folder = std::make_shared<const TemporaryFolder>();
  folder->write("camshaft_worker.py", std::string(python_worker::camshaft_worker_py));
  folder->write("camshaft_channel.py", std::string(python_worker::camshaft_channel_py));
  folder->write("camshaft_tensors.py", std::string(python_worker::camshaft_tensors_py));
  folder->write("camshaft_language_model.py", std::string(python_worker::camshaft_language_model_py));
  folder->write("triton_python_backend_utils.py", std::string(python_worker::triton_python_backend_utils_py));
  kept = folder;
  return folder;
}

/// The program of that name in PATH.
fs::path find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string folders = path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path;
  for (size_t at = 0; at <= folders.size();) {
    const size_t end = std::min(folders.find(':', at), folders.size());
    const fs::path program = fs::path(folders.substr(at, end - at)) / name;
    if (end > at && access(program.c_str(), X_OK) == 0) return program;
    at = end + 1;
  }
  throw ServerError(StatusCode::invalid_argument,
                    "there is no " + name + " in PATH: install it, or name one with the variable CAMSHAFT_PYTHON");
}

fs::path interpreter_in(const fs::path& environment) {
  for (const char* name : {"bin/python3", "bin/python"})
    if (access((environment / name).c_str(), X_OK) == 0) return environment / name;
  throw ServerError(StatusCode::invalid_argument,
                    "EXECUTION_ENV_PATH: there is no bin/python3 in " + environment.string());
}

}  // namespace

PythonEnvironment find_python(const std::string& execution_environment) {
  PythonEnvironment found;
  found.worker = worker_folder();
  if (execution_environment.empty()) {
    const char* named = std::getenv("CAMSHAFT_PYTHON");
    const std::string name = named == nullptr || *named == '\0' ? "python3" : named;
    found.interpreter = name.find('/') == std::string::npos ? find_program(name) : fs::path(name);
    return found;
  }
  if (fs::is_directory(execution_environment)) {
    found.interpreter = interpreter_in(execution_environment);
    return found;
  }
  auto unpacked = std::make_shared<const TemporaryFolder>();
  const pid_t tar =
      start_process({find_program("tar").string(), "-xf", execution_environment, "-C", unpacked->path().string()}, -1);
  const std::string end = end_process(tar, std::chrono::hours(1));
  if (end != "exited with status 0") {
    throw ServerError(StatusCode::invalid_argument,
                      "EXECUTION_ENV_PATH: tar cannot unpack '" + execution_environment + "': it " + end);
  }
  found.interpreter = interpreter_in(unpacked->path());
  found.unpacked = std::move(unpacked);
  return found;
}

pid_t start_process(const std::vector<std::string>& arguments, int socket) {
  std::vector<char*> texts;
  for (const std::string& argument : arguments) texts.push_back(const_cast<char*>(argument.c_str()));
  texts.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  if (socket >= 0) posix_spawn_file_actions_adddup2(&files, socket, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  pid_t process = 0;
  const int error = posix_spawn(&process, texts.front(), &files, &attributes, texts.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0)
    throw ServerError(StatusCode::invalid_argument, "cannot start " + arguments.front() + ": " + strerror(error));
  return process;
}

std::string end_process(pid_t process, std::chrono::milliseconds patience) {
  int status = 0;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (waitpid(process, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= deadline) {
      kill(process, SIGKILL);
      waitpid(process, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return "was killed by signal " + std::to_string(number) + " (" + strsignal(number) + ")";
  }
  return "exited with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace camshaft::server
