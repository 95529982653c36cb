#include "server/top/top.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string_view>
#include <thread>

#include "server/core/status.h"
#include "server/top/figures.h"
#include "server/top/screen.h"
#include "server/top/status_client.h"
#include "server/top/terminal.h"

namespace camshaft::server {

namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr int exit_failure = 1, exit_usage = 2;
constexpr size_t kept_rates = 60;

constexpr const char* keys_help =
    "Keys: q ends, p pauses, s sorts by name, requests, waiting or p99, the arrows scroll.\n"
    "P50 and P99 are of the requests between two looks, by a histogram (1, 2, 5, 10, ...): lines within its buckets.\n";

struct TopOptions {
  StatusSource source;
  double interval = 2;
  bool once = false, as_json = false;
};

milliseconds interval_of(const TopOptions& options) {
  return milliseconds(static_cast<int64_t>(options.interval * 1000));
}

Figures compare(const json& before, const json& now) {
  try {
    return compare_looks(before, now);
  } catch (const json::exception&) {
    throw ServerError(StatusCode::unsupported,
                      "the server has other figures than this command: they are of different "
                      "versions of Camshaft");
  }
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  if (std::fflush(stdout) != 0) throw ServerError(StatusCode::internal, "the standard output could not be written");
}

void remember(RateHistory& history, const Figures& figures) {
  for (const ModelFigures& model : figures.models) {
    std::deque<double>& rates = history[history_key(model)];
    rates.push_back(model.requests_per_second);
    if (rates.size() > kept_rates) rates.pop_front();
  }
}

// Without a terminal: a text or a line of JSON after each interval.
int print_looks(const TopOptions& options, const StatusClient& client) {
  RateHistory history;
  json before = client.read();
  for (;;) {
    std::this_thread::sleep_for(interval_of(options));
    json now = client.read();
    const Figures figures = compare(before, now);
    remember(history, figures);
    ScreenForm form;
    form.columns = 140;
    form.blocks = has_unicode();
    if (options.as_json)
      print(figures_json(figures).dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
    else
      print(screen_text(figures, history, form) + (options.once ? "" : "\n"));
    if (options.once) return 0;
    before = std::move(now);
  }
}

class LiveView {
 public:
  LiveView(const TopOptions& options, const StatusClient& client) : options_(options), client_(client) {
    // Before the terminal is taken: a server that is not there is said where it can be read later.
    before_ = client_.read();
    figures_ = compare(nullptr, before_);
  }

  int run() {
    Terminal terminal;
    form_.colour = true;
    form_.blocks = has_unicode();
    auto next = std::chrono::steady_clock::now() + interval_of(options_);
    for (;;) {
      draw(terminal);
      const auto left = std::chrono::duration_cast<milliseconds>(next - std::chrono::steady_clock::now());
      const std::string key = terminal.wait_for_key(std::max(left, milliseconds(0)));
      if (key == "q" || key == "end") return 0;
      take_key(key);
      if (std::chrono::steady_clock::now() < next) continue;
      next = std::chrono::steady_clock::now() + interval_of(options_);
      if (!paused_) look();
    }
  }

 private:
  void draw(Terminal& terminal) {
    form_.columns = terminal.columns();
    form_.rows = terminal.rows();
    form_.notice = !problem_.empty() ? problem_ : paused_ ? "paused: p goes on" : client_.place();
    terminal.show(screen_text(figures_, history_, form_));
  }

  void take_key(const std::string& key) {
    if (key == "p") paused_ = !paused_;
    if (key == "s") form_.order = static_cast<TopOrder>((static_cast<int>(form_.order) + 1) % 4);
    if (key == "up" && form_.first > 0) --form_.first;
    if (key == "down" && form_.first + 1 < figures_.models.size()) ++form_.first;
  }

  // A server that does not answer may be one that is started again.
  void look() {
    try {
      json now = client_.read();
      figures_ = compare(before_, now);
      remember(history_, figures_);
      before_ = std::move(now);
      problem_.clear();
    } catch (const ServerError& error) {
      problem_ = error.what();
    }
  }

  const TopOptions& options_;
  const StatusClient& client_;
  json before_;
  Figures figures_;
  RateHistory history_;
  ScreenForm form_;
  std::string problem_;
  bool paused_ = false;
};

void add_options(CLI::App& app, TopOptions& options) {
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.add_option("--url", options.source.url, "Where the server is: its HTTP address")->capture_default_str();
  app.add_option("--interval", options.interval, "Seconds between two looks")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  app.add_flag("--once", options.once, "Print the figures of one interval, and end");
  app.add_flag("--json", options.as_json, "Print a JSON document a look, in one line");
  app.add_option("--token-file", options.source.token_file, "What begins with the token that the server asks for")
      ->type_name("FILE");
  app.add_option("--root-cert", options.source.root_cert, "Authorities of the server's certificate (the system's)")
      ->type_name("FILE");
  auto* cert = app.add_option("--client-cert", options.source.client_cert, "A certificate for servers that want one");
  auto* key = app.add_option("--client-key", options.source.client_key, "Its key");
  cert->type_name("FILE")->needs(key);
  key->type_name("FILE")->needs(cert);
  app.footer(keys_help);
}

}  // namespace

bool is_top(int argc, const char* const* argv) {
  return argc > 1 && std::string_view(argv[1]) == "top";
}

int run_top(int argc, const char* const* argv) noexcept {
  const auto fail = [](const char* message, int code) {
    std::fprintf(stderr, "camshaft top: error: %s\n", message);
    return code;
  };
  try {
    CLI::App app("Shows what a server does: models, queues, batches, latencies.", "camshaft top");
    TopOptions options;
    add_options(app, options);
    try {
      app.parse(argc - 1, argv + 1);
    } catch (const CLI::Success& help) {
      return app.exit(help);
    } catch (const CLI::ParseError& error) {
      return fail((std::string(error.what()) + "; see 'camshaft top --help'").c_str(), exit_usage);
    }
    const StatusClient client(options.source);
    if (options.once || options.as_json || !is_terminal()) return print_looks(options, client);
    return LiveView(options, client).run();
  } catch (const ServerError& error) {
    return fail(error.what(), error.code() == StatusCode::invalid_argument ? exit_usage : exit_failure);
  } catch (const std::exception& error) {
    return fail(error.what(), exit_failure);
  }
}

}  // namespace camshaft::server
