// One request for an inference and what comes of it, without a protocol.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "camshaft/cancellation.hpp"
#include "server/core/status.h"
#include "server/core/tensor.h"

namespace camshaft::server {

using Parameter = std::variant<bool, int64_t, uint64_t, double, std::string>;
using Parameters = std::map<std::string, Parameter>;

/// Of a sequence of requests that go to the same instance one after another. Sequences are told apart by a number or a
/// text; 0 and "": the request belongs to none.
struct SequenceId {
  uint64_t number = 0;
  std::string text;
  bool defined() const { return number != 0 || !text.empty(); }
  auto operator<=>(const SequenceId&) const = default;
};

/// An output that the client asks for.
struct RequestedOutput {
  std::string name;
  /// In place of the tensor its so many largest elements, as texts "value:index[:label]"; 0: the tensor.
  int64_t classes = 0;
  /// Where the client wants it: its own shared memory. The response's tensor then lies there.
  std::optional<std::span<std::byte>> target;
  std::shared_ptr<const void> target_owner;
  Device target_device = {};
};

using Clock = std::chrono::steady_clock;

/// When the request came to where; zero: not yet. Statistics, metrics and traces are made of them.
struct Timeline {
  Clock::time_point received;       ///< its first byte
  Clock::time_point queued;         ///< decoded, handed to the model
  Clock::time_point compute_start;  ///< an instance took it
  Clock::time_point input_end;      ///< its inputs are where the run reads them
  Clock::time_point output_start;   ///< the run is done
  Clock::time_point compute_end;    ///< its outputs are where the response has them
};

struct Request {
  std::string model;
  std::string version;  ///< a number; empty: the one that the model's policy takes, the newest
  std::string id;       ///< the client's own, handed back
  std::vector<NamedTensor> inputs;
  std::vector<RequestedOutput> outputs;  ///< empty: all
  Parameters parameters;                 ///< the client's own, without those that are fields here
  SequenceId sequence;
  bool sequence_start = false, sequence_end = false;
  uint64_t priority = 0;    ///< 1 is the highest; 0: the model's default
  uint64_t timeout_us = 0;  ///< in the queue; 0: the model's default
  Cancellation cancellation;
  Timeline timeline;
  std::string trace_id;  ///< empty: it is not traced
  /// SharedMemory::Slice::broken, where it has one, of all memory of the client's that it uses: where one is set there
  /// is no answer.
  std::vector<std::shared_ptr<const std::atomic<bool>>> memory_lost;
};

struct Response {
  Status status;
  std::string model, version, id;
  Parameters parameters;
  std::vector<NamedTensor> outputs;  ///< in the order of Request::outputs, or of the model's
  /// Whether no other response follows; of a model that is not decoupled always.
  bool final = true;
  /// Of a decoupled model that ends without a last tensor: there is nothing but `final`.
  bool empty = false;
  /// Of the request, with what the run has added.
  Timeline timeline;
};

/// Takes responses; called once with `final`, for every request that was taken, and possibly before with others. It may
/// be called on any thread and must not block or throw.
using Respond = std::function<void(Response)>;

}  // namespace camshaft::server
