// What the server is started with.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "server/core/server.h"
#include "server/grpc/grpc_options.h"
#include "server/http/http_server.h"

namespace camshaft::server {

struct ServeOptions {
  ServerOptions server;
  HttpOptions http;
  GrpcOptions grpc;
  LogSettings::Values log;
  bool allow_http = true, allow_grpc = true, allow_metrics = true;
  bool exit_on_error = true;
  int metrics_port = 8002;
  bool help = false, version = false;
  bool http_address_given = false, grpc_address_given = false;
  /// What was given and has no effect here, a line each.
  std::vector<std::string> notes;
};

/// What is wrong with the command line; `what()` says how to get it right.
class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Flags as `--name=value` or `--name value`, as Triton has them. Throws OptionError for one that is not there, naming
/// the nearest.
ServeOptions parse_command_line(const std::vector<std::string>& arguments);
/// All flags, by what they are for.
std::string help_text();

}  // namespace camshaft::server
