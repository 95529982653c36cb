#include "tools/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include "camshaft/error.hpp"

extern char** environ;

namespace camshaft::tools {

int run_child(const std::vector<std::string>& arguments, const ChildStreams& streams, const Cancellation& cancellation,
              const char* doing, const std::string& way_out) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const auto open = [&](int stream, const std::string& path) {
    posix_spawn_file_actions_addopen(&actions, stream, path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  };
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  open(STDOUT_FILENO, streams.out);
  if (streams.err == streams.out)
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  else
    open(STDERR_FILENO, streams.err);
  pid_t process = 0;
  const int error = posix_spawnp(&process, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}' could not be started: {}{}", arguments[0], std::strerror(error), way_out));
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(process, &status, WNOHANG);
    if (ended == process) break;
    if (ended < 0 && errno != EINTR)
      throw Error(ErrorCode::internal, fmt::format("waiting for '{}' failed: {}", arguments[0], std::strerror(errno)));
    if (cancellation.cancelled()) {
      kill(process, SIGKILL);
      waitpid(process, &status, 0);
      cancellation.check(doing);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  cancellation.check(doing);  // Ctrl-C reaches the child as well
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string line, last;
  while (std::getline(file, line))
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  return last;
}

}  // namespace camshaft::tools
