// Load for a server: serving_load --help.
//
// Each client has one request under way, in a closed loop; with --rate requests come by themselves, so many a second
// (Poisson), and wait for a client that is free: their latency begins when they come. Prints one line of JSON: counts,
// and latencies in microseconds of the requests that were answered. Refused ones (503, RESOURCE_EXHAUSTED, UNAVAILABLE)
// count apart from failed ones: a connection that ends without an answer is a failure.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <chrono>
#include <cstdio>
#include <deque>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Load {
  std::string protocol = "http", host = "127.0.0.1", port, path, method, body;
  std::vector<std::pair<std::string, std::string>> headers;
  int clients = 1;
  double seconds = 1, rate = 0, skip = 0;
  uint64_t seed = 1;
};

enum class Outcome { answered, refused, failed };

/// When requests come, and what became of them.
class Schedule {
 public:
  explicit Schedule(const Load& load) : load_(load), start_(Clock::now()), next_(start_), random_(load.seed) {}

  bool over(Clock::time_point now) const { return now - start_ >= std::chrono::duration<double>(load_.seconds); }
  bool open() const { return load_.rate > 0; }
  /// Of the request that comes next in an open loop.
  Clock::time_point next_arrival() const { return next_; }
  Clock::time_point take_arrival() {
    const Clock::time_point taken = next_;
    next_ += std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(std::exponential_distribution<double>(load_.rate)(random_)));
    return taken;
  }
  void done(Clock::time_point began, Outcome outcome) {
    const Clock::time_point now = Clock::now();
    const auto behind = [&](Clock::time_point time) {
      return time - start_ >= std::chrono::duration<double>(load_.skip);
    };
    if (outcome == Outcome::failed) ++failed_;
    // By when they are answered: those that began at the beginning of the time that counts wait for what began before.
    if (outcome == Outcome::answered && behind(now) && !over(now)) ++in_time_;
    if (!behind(began)) return;
    if (outcome == Outcome::refused) ++refused_;
    if (outcome == Outcome::answered)
      latencies_.push_back(std::chrono::duration<double, std::micro>(now - began).count());
  }
  void print() {
    std::sort(latencies_.begin(), latencies_.end());
    const auto quantile = [&](double q) {
      return latencies_.empty() ? 0.0 : latencies_[static_cast<size_t>(q * static_cast<double>(latencies_.size() - 1))];
    };
    const double seconds = load_.seconds - load_.skip;
    const auto slower = [&](double us) {
      return latencies_.end() - std::upper_bound(latencies_.begin(), latencies_.end(), us);
    };
    std::printf("%s\n", nlohmann::json({{"requests", latencies_.size() + refused_ + failed_},
                                        {"answered", latencies_.size()},
                                        {"refused", refused_},
                                        {"failed", failed_},
                                        {"slower_than_50_ms", slower(50e3)},
                                        {"seconds", seconds},
                                        {"per_second", static_cast<double>(in_time_) / seconds},
                                        {"p50", quantile(0.5)},
                                        {"p99", quantile(0.99)},
                                        {"max", quantile(1)}})
                            .dump()
                            .c_str());
  }

 private:
  const Load& load_;
  const Clock::time_point start_;
  Clock::time_point next_;
  std::mt19937_64 random_;
  std::vector<double> latencies_;
  size_t failed_ = 0, refused_ = 0, in_time_ = 0;
};

class GrpcClients {
 public:
  GrpcClients(const Load& load, Schedule& schedule)
      : schedule_(schedule), clients_(load.clients), path_("/" + load.path) {
    const grpc::Slice slice(load.body);
    request_ = grpc::ByteBuffer(&slice, 1);
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(load.host + ":" + load.port, grpc::InsecureChannelCredentials(), arguments));
  }

  void run() {
    for (;;) {
      const Clock::time_point now = Clock::now();
      const bool over = schedule_.over(now);
      while (!over && under_way_ < clients_ && (!schedule_.open() || schedule_.next_arrival() <= now))
        begin(schedule_.open() ? schedule_.take_arrival() : Clock::now());
      if (over && under_way_ == 0) return;
      void* tag = nullptr;
      bool ok = false;
      const auto wake = schedule_.open() && !over && under_way_ < clients_
                            ? std::chrono::system_clock::now() + (schedule_.next_arrival() - now)
                            : std::chrono::system_clock::now() + std::chrono::seconds(1);
      if (queue_.AsyncNext(&tag, &ok, wake) == grpc::CompletionQueue::GOT_EVENT) end(static_cast<Call*>(tag));
    }
  }

 private:
  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer reply;
    grpc::Status status;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
    Clock::time_point began;
  };
  void begin(Clock::time_point began) {
    auto* call = new Call;
    call->began = began;
    call->reader = stub_->PrepareUnaryCall(&call->context, path_, request_, &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->reply, &call->status, call);
    ++under_way_;
  }
  void end(Call* call) {
    const grpc::StatusCode code = call->status.error_code();
    const bool refused = code == grpc::StatusCode::RESOURCE_EXHAUSTED || code == grpc::StatusCode::UNAVAILABLE;
    schedule_.done(call->began, call->status.ok() ? Outcome::answered : refused ? Outcome::refused : Outcome::failed);
    if (!call->status.ok() && !told_++) std::fprintf(stderr, "%s\n", call->status.error_message().c_str());
    delete call;
    --under_way_;
  }

  Schedule& schedule_;
  const int clients_;
  const std::string path_;
  grpc::ByteBuffer request_;
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::CompletionQueue queue_;
  int under_way_ = 0, told_ = 0;
};

class HttpClients {
 public:
  HttpClients(const Load& load, Schedule& schedule) : schedule_(schedule), timer_(context_) {
    request_.method_string(load.method);
    request_.target(load.path);
    request_.version(11);
    request_.set(http::field::host, load.host);
    for (const auto& [name, value] : load.headers) request_.set(name, value);
    request_.body() = load.body;
    request_.prepare_payload();
    boost::asio::ip::tcp::resolver resolver(context_);
    there_ = resolver.resolve(load.host, load.port);
    for (int i = 0; i < load.clients; ++i) {
      auto client = std::make_unique<Client>(context_);
      connect(*client);
      idle_.push_back(client.get());
      clients_.push_back(std::move(client));
    }
  }

  void run() {
    feed();
    context_.run();
  }

 private:
  struct Client {
    explicit Client(boost::asio::io_context& context) : socket(context) {}
    boost::asio::ip::tcp::socket socket;
    boost::beast::flat_buffer buffer;
    /// Of the response that is read; its body is in `body`, unless it is in chunks.
    std::optional<boost::beast::http::response_parser<boost::beast::http::string_body>> parser;
    std::vector<char> body;  ///< kept: a string that grows anew would cost 1 ms of each answer of a megabyte
    size_t body_size = 0;
    Clock::time_point began;
  };
  struct http {
    using field = boost::beast::http::field;
  };

  void connect(Client& client) {
    boost::asio::connect(client.socket, there_);
    client.socket.set_option(boost::asio::ip::tcp::no_delay(true));
  }
  void feed() {
    const Clock::time_point now = Clock::now();
    if (schedule_.over(now)) return;
    while (!idle_.empty() && (!schedule_.open() || schedule_.next_arrival() <= now)) {
      Client* client = idle_.front();
      idle_.pop_front();
      client->began = schedule_.open() ? schedule_.take_arrival() : Clock::now();
      boost::beast::http::async_write(client->socket, request_,
                                      [this, client](auto error, size_t) { written(client, error); });
    }
    if (!schedule_.open() || idle_.empty() || waits_) return;
    waits_ = true;
    timer_.expires_at(schedule_.next_arrival());
    timer_.async_wait([this](auto) {
      waits_ = false;
      feed();
    });
  }
  void written(Client* client, boost::beast::error_code error) {
    if (error) return ended(client, error);
    client->parser.emplace();
    client->parser->body_limit(boost::none);
    client->body_size = 0;
    boost::beast::http::async_read_header(client->socket, client->buffer, *client->parser,
                                          [this, client](auto failed, size_t) { read_body(client, failed); });
  }
  void read_body(Client* client, boost::beast::error_code error) {
    if (error || client->parser->is_done()) return ended(client, error);
    const auto size = client->parser->content_length();
    if (!size) {
      boost::beast::http::async_read(client->socket, client->buffer, *client->parser,
                                     [this, client](auto failed, size_t) { ended(client, failed); });
      return;
    }
    client->body_size = *size;
    if (client->body.size() < *size) client->body.resize(*size);
    const size_t here =
        boost::asio::buffer_copy(boost::asio::buffer(client->body.data(), *size), client->buffer.data());
    client->buffer.consume(here);
    boost::asio::async_read(client->socket, boost::asio::buffer(client->body.data() + here, *size - here),
                            [this, client](auto failed, size_t) { ended(client, failed); });
  }
  void ended(Client* client, boost::beast::error_code error) {
    const unsigned status = error ? 0 : client->parser->get().result_int();
    const Outcome outcome = status == 200 ? Outcome::answered : status == 503 ? Outcome::refused : Outcome::failed;
    schedule_.done(client->began, outcome);
    if (outcome == Outcome::failed && !told_++)
      std::fprintf(stderr, "%s\n",
                   error ? error.message().c_str() : std::string(client->body.data(), client->body_size).c_str());
    if (error || client->parser->get().need_eof()) {
      client->socket.close();
      client->buffer.clear();
      connect(*client);
    }
    idle_.push_back(client);
    feed();
  }

  Schedule& schedule_;
  boost::asio::io_context context_{1};
  boost::asio::steady_timer timer_;
  boost::asio::ip::tcp::resolver::results_type there_;
  boost::beast::http::request<boost::beast::http::string_body> request_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::deque<Client*> idle_;
  bool waits_ = false;
  int told_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Sends a server the same request again and again, and measures.", "serving_load");
  Load load;
  std::string file;
  std::vector<std::string> headers;
  app.add_option("--protocol", load.protocol)->check(CLI::IsMember({"http", "grpc"}));
  app.add_option("--host", load.host);
  app.add_option("--port", load.port)->required();
  app.add_option("--path", load.path, "What is asked for: /v2/…, or SERVICE/METHOD of gRPC")->required();
  app.add_option("--method", load.method)->default_val("POST");
  app.add_option("--body", file, "A file with the request's body, or the message")->check(CLI::ExistingFile);
  app.add_option("--header", headers, "NAME:VALUE; may be repeated")->allow_extra_args(false);
  app.add_option("--clients", load.clients)->check(CLI::PositiveNumber);
  app.add_option("--seconds", load.seconds);
  app.add_option("--skip", load.skip, "Seconds at the beginning that do not count");
  app.add_option("--seed", load.seed, "Of the times at which requests come");
  app.add_option("--rate", load.rate, "Requests a second; without, each client asks again once it is answered");
  CLI11_PARSE(app, argc, argv);
  for (const std::string& header : headers) {
    const size_t colon = header.find(':');
    load.headers.emplace_back(header.substr(0, colon), colon == header.npos ? "" : header.substr(colon + 1));
  }
  if (!file.empty()) {
    std::ifstream in(file, std::ios::binary);
    load.body.assign(std::istreambuf_iterator<char>(in), {});
  }
  Schedule schedule(load);
  if (load.protocol == "grpc")
    GrpcClients(load, schedule).run();
  else
    HttpClients(load, schedule).run();
  schedule.print();
  return 0;
}
