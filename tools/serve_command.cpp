#include "tools/serve_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "camshaft/error.hpp"

namespace camshaft::tools {

namespace {

constexpr const char* server_name = "camshaft-server";

std::string server_program() {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const std::filesystem::path& place : {folder / server_name, folder.parent_path() / "server" / server_name})
    if (access(place.c_str(), X_OK) == 0) return place.string();
  return server_name;
}

}  // namespace

void list_serve_commands(CLI::App& app) {
  app.add_subcommand("serve", "Serve a folder of models over HTTP and gRPC, to Triton's clients and by its files");
  app.add_subcommand("top", "Show what a running server does: models, queues, batches, latencies");
}

bool is_serve_command(int argc, const char* const* argv) {
  return argc > 1 && (std::string_view(argv[1]) == "serve" || std::string_view(argv[1]) == "top");
}

void run_serve_command(int argc, const char* const* argv) {
  const std::string program = server_program();
  std::vector<const char*> arguments = {program.c_str()};
  const bool is_serve = std::string_view(argv[1]) == "serve";
  arguments.insert(arguments.end(), argv + (is_serve ? 2 : 1), argv + argc);
  arguments.push_back(nullptr);
  execvp(program.c_str(), const_cast<char* const*>(arguments.data()));
  throw Error(ErrorCode::invalid_argument,
              fmt::format("'camshaft {}' needs the program {}, which is neither beside this one nor on the PATH ({}); "
                          "build it with `scripts/build.sh release camshaft_server`",
                          argv[1], server_name, std::strerror(errno)));
}

}  // namespace camshaft::tools
