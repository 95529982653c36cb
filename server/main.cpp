// camshaft-server: models over HTTP and gRPC.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "camshaft/system.hpp"
#include "server/core/log.h"
#include "server/core/server.h"
#include "server/core/temporary_folder.h"
#include "server/grpc/grpc_server.h"
#include "server/http/http_server.h"
#include "server/options/serve_options.h"
#include "server/options/systemd.h"
#include "server/top/top.h"

namespace camshaft::server {
namespace {

// As the command `camshaft` has them: wrong use, and what failed otherwise.
constexpr int exit_usage = 2, exit_failure = 1;

// Taken by wait_for_end() alone: blocked before any thread starts, so that every thread has them blocked.
sigset_t awaited_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&signals, signal);
  return signals;
}

/// Models are loaded beside the thread that takes signals: a build of minutes must not hold up the end.
class Loading {
 public:
  explicit Loading(Server& server) : thread_([this, &server] { load(server); }) {}
  ~Loading() {
    if (thread_.joinable()) thread_.join();
  }
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;

  /// From SIGUSR1 on, which the process gets then.
  bool done() const { return done_; }
  /// Throws what went wrong.
  void check() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void load(Server& server) {
    try {
      server.start();
    } catch (...) {
      error_ = std::current_exception();
    }
    done_ = true;
    kill(getpid(), SIGUSR1);
  }

  std::exception_ptr error_;
  std::atomic<bool> done_ = false;
  std::thread thread_;  // last
};

bool has_failed_models(Server& server) {
  bool failed = false;
  for (const IndexEntry& entry : server.models().index(false)) failed |= entry.state == ModelState::unavailable;
  return failed;
}

void look_for_changes(Server& server) {
  log(LogKind::info, "SIGHUP: looking for changed models");
  try {
    server.models().poll();
  } catch (...) {
    log(LogKind::error, "cannot look for changes: " + current_exception_status().message);
  }
}

/// Whether the end was asked for; else a model of the start failed.
bool wait_for_end(Server& server, const Loading& loading, bool exit_on_error) {
  const sigset_t signals = awaited_signals();
  bool ready = false;
  for (;;) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal == SIGTERM || signal == SIGINT) {
      log(LogKind::info,
          std::string("ending on ") + (signal == SIGTERM ? "SIGTERM" : "SIGINT") + ": requests under way are answered");
      return true;
    }
    if (signal == SIGHUP && ready) look_for_changes(server);
    if (signal != SIGUSR1 || ready || !loading.done()) continue;
    loading.check();
    if (exit_on_error && has_failed_models(server)) {
      log(LogKind::error, "a model cannot be loaded, see above: --exit-on-error=false serves the others");
      return false;
    }
    ready = true;
    notify_systemd("READY=1\nSTATUS=serving");
    log(LogKind::info, "ready");
  }
}

void say_where(const ServeOptions& options, const HttpServer* http, const GrpcServer* grpc) {
  const auto at = [](const std::string& address, uint16_t port) { return address + ":" + std::to_string(port); };
  if (http != nullptr) log(LogKind::info, "HTTP at " + at(options.http.address, http->port()));
  if (grpc != nullptr) log(LogKind::info, "gRPC at " + at(options.grpc.address, grpc->port()));
  if (http != nullptr && options.http.metrics_port >= 0)
    log(LogKind::info,
        "metrics at " + at(options.http.metrics_address.empty() ? options.http.address : options.http.metrics_address,
                           http->metrics_port()));
  const bool only_here =
      (http != nullptr && !options.http_address_given) || (grpc != nullptr && !options.grpc_address_given);
  if (only_here)
    log(LogKind::info,
        "only this machine can reach it: --http-address=0.0.0.0 --grpc-address=0.0.0.0 let others in, "
        "see --token-file and --http-server-cert");
}

int serve(const ServeOptions& options) {
  Server server(options.server);
  server.log().set(options.log);
  log_library_messages();
  for (const std::string& note : options.notes) log(LogKind::warning, note);
  // Health can be asked for while models load.
  std::unique_ptr<HttpServer> http;
  std::unique_ptr<GrpcServer> grpc;
  if (options.allow_http) http = std::make_unique<HttpServer>(server, options.http);
  if (options.allow_grpc) grpc = std::make_unique<GrpcServer>(server, options.grpc);
  if (http) http->start();
  if (grpc) grpc->start();
  say_where(options, http.get(), grpc.get());
  bool asked = false;
  {
    const Loading loading(server);
    asked = wait_for_end(server, loading, options.exit_on_error);
    notify_systemd("STOPPING=1");
    server.stop();
    if (grpc) grpc->stop();
    if (http) http->stop();
    // A model that is still being built cannot be left in the middle; nothing of it is needed, and nothing half
    // written.
    if (!loading.done()) {
      TemporaryFolder::end_all();
      std::_Exit(0);
    }
  }
  return asked ? 0 : exit_failure;
}

int run(const std::vector<std::string>& arguments) {
  try {
    const ServeOptions options = parse_command_line(arguments);
    if (options.help) {
      std::fputs(help_text().c_str(), stdout);
      return 0;
    }
    if (options.version) {
      std::printf("camshaft-server %s\n", camshaft::version().c_str());
      return 0;
    }
    return serve(options);
  } catch (const OptionError& error) {
    std::fprintf(stderr, "camshaft-server: %s\n", error.what());
    return exit_usage;
  } catch (...) {
    std::fprintf(stderr, "camshaft-server: %s\n", current_exception_status().message.c_str());
    return exit_failure;
  }
}

}  // namespace
}  // namespace camshaft::server

int main(int argc, char** argv) {
  if (camshaft::server::is_top(argc, argv)) return camshaft::server::run_top(argc, argv);
  // Of glibc's eight arenas a core each keeps its own pieces of models that have gone: with two cores and their 16
  // arenas what is resident after reloads goes up and down by 7 %, with two arenas by 0.1 %.
  mallopt(M_ARENA_MAX, std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 2, 8));
  const sigset_t signals = camshaft::server::awaited_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return camshaft::server::run(std::vector<std::string>(argv + 1, argv + argc));
}
