// Load for a server: serving_load PROTOCOL HOST PORT MODEL INPUT COLUMNS CLIENTS SECONDS [RATE]
//
// PROTOCOL is http or grpc; each request is one FP32 tensor [1, COLUMNS]. CLIENTS have one request under way each, in a
// closed loop; with RATE requests come by themselves, so many a second (Poisson), and wait for a client that is free:
// their latency begins when they come. Prints one line of JSON with counts and latencies in microseconds.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <chrono>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "inference.pb.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Load {
  std::string protocol, host, port, model, input;
  int64_t columns = 0;
  int clients = 1;
  double seconds = 1, rate = 0;
};

/// When requests come, and what became of them.
class Schedule {
 public:
  explicit Schedule(const Load& load) : load_(load), start_(Clock::now()), next_(start_) {}

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
  void done(Clock::time_point began, bool good) {
    if (!good) ++failed_;
    latencies_.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count());
  }
  void print() {
    std::sort(latencies_.begin(), latencies_.end());
    const auto quantile = [&](double q) {
      return latencies_.empty() ? 0.0 : latencies_[static_cast<size_t>(q * static_cast<double>(latencies_.size() - 1))];
    };
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    std::printf("%s\n", nlohmann::json({{"requests", latencies_.size()},
                                        {"failed", failed_},
                                        {"seconds", seconds},
                                        {"per_second", static_cast<double>(latencies_.size()) / seconds},
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
  std::mt19937_64 random_{1};
  std::vector<double> latencies_;
  size_t failed_ = 0;
};

std::string tensor_bytes(const Load& load) { return std::string(static_cast<size_t>(load.columns) * 4, '\0'); }

class GrpcClients {
 public:
  GrpcClients(const Load& load, Schedule& schedule) : schedule_(schedule), clients_(load.clients) {
    inference::ModelInferRequest message;
    message.set_model_name(load.model);
    auto& input = *message.add_inputs();
    input.set_name(load.input);
    input.set_datatype("FP32");
    input.add_shape(1);
    input.add_shape(load.columns);
    message.add_raw_input_contents(tensor_bytes(load));
    const grpc::Slice slice(message.SerializeAsString());
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
    call->reader =
        stub_->PrepareUnaryCall(&call->context, "/inference.GRPCInferenceService/ModelInfer", request_, &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->reply, &call->status, call);
    ++under_way_;
  }
  void end(Call* call) {
    schedule_.done(call->began, call->status.ok());
    if (!call->status.ok() && !told_++) std::fprintf(stderr, "%s\n", call->status.error_message().c_str());
    delete call;
    --under_way_;
  }

  Schedule& schedule_;
  const int clients_;
  grpc::ByteBuffer request_;
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::CompletionQueue queue_;
  int under_way_ = 0, told_ = 0;
};

class HttpClients {
 public:
  HttpClients(const Load& load, Schedule& schedule) : schedule_(schedule), timer_(context_) {
    const nlohmann::json document = {{"inputs",
                                      {{{"name", load.input},
                                        {"datatype", "FP32"},
                                        {"shape", {1, load.columns}},
                                        {"parameters", {{"binary_data_size", 4 * load.columns}}}}}},
                                     {"parameters", {{"binary_data_output", true}}}};
    const std::string json = document.dump();
    request_.method(http::verb::post);
    request_.target("/v2/models/" + load.model + "/infer");
    request_.version(11);
    request_.set(http::field::host, load.host);
    request_.set("Inference-Header-Content-Length", std::to_string(json.size()));
    request_.body() = json + tensor_bytes(load);
    request_.prepare_payload();
    boost::asio::ip::tcp::resolver resolver(context_);
    const auto there = resolver.resolve(load.host, load.port);
    for (int i = 0; i < load.clients; ++i) {
      auto client = std::make_unique<Client>(context_);
      boost::asio::connect(client->socket, there);
      client->socket.set_option(boost::asio::ip::tcp::no_delay(true));
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
    boost::beast::http::response<boost::beast::http::string_body> response;
    Clock::time_point began;
  };
  struct http {
    using verb = boost::beast::http::verb;
    using field = boost::beast::http::field;
  };

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
    if (error) return ended(client, false);
    client->response = {};
    boost::beast::http::async_read(client->socket, client->buffer, client->response, [this, client](auto failed, size_t) {
      ended(client, !failed && client->response.result_int() == 200);
    });
  }
  void ended(Client* client, bool good) {
    schedule_.done(client->began, good);
    if (!good && !told_++) std::fprintf(stderr, "%s\n", client->response.body().c_str());
    idle_.push_back(client);
    feed();
  }

  Schedule& schedule_;
  boost::asio::io_context context_{1};
  boost::asio::steady_timer timer_;
  boost::beast::http::request<boost::beast::http::string_body> request_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::deque<Client*> idle_;
  bool waits_ = false;
  int told_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 9) return std::fprintf(stderr, "serving_load: see the first lines of bench/serving_load.cpp\n"), 2;
  Load load{argv[1], argv[2], argv[3], argv[4], argv[5], std::atoll(argv[6]), std::atoi(argv[7]), std::atof(argv[8])};
  if (argc > 9) load.rate = std::atof(argv[9]);
  Schedule schedule(load);
  if (load.protocol == "grpc")
    GrpcClients(load, schedule).run();
  else
    HttpClients(load, schedule).run();
  schedule.print();
  return 0;
}
