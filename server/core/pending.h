// A request between the check of its tensors and its answer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "server/core/request.h"
#include "server/core/signature.h"
#include "server/core/statistics.h"

namespace camshaft::server {

/// Answered once: what is given up unanswered answers with an error.
class Pending {
 public:
  Pending(Request request_taken, Respond respond, ModelStatistics& statistics, std::shared_ptr<const void> model)
      : request(std::move(request_taken)),
        respond_(std::move(respond)),
        statistics_(&statistics),
        model_(std::move(model)) {}
  ~Pending();
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  /// The last response: fills in what every response has, counts it and hands it over.
  void succeed(std::vector<NamedTensor> outputs, Parameters parameters = {});
  void fail(const Status& status, FailureReason reason);
  /// A response of a decoupled model that others follow, or the final one. Counted once, with the final one.
  void respond(Response response);
  /// Of whom it is counted: of a warm-up nobody.
  ModelStatistics& statistics() const { return *statistics_; }
  bool answered() const { return respond_ == nullptr; }
  /// Called in place of handing a response over: for keeping orders and results.
  void intercept(std::function<Respond(Respond)> wrap) { respond_ = wrap(std::move(respond_)); }

  Request request;
  int64_t batch = 1;                       ///< elements along the axis of the batch; 1 where there is none
  std::vector<const NamedTensor*> inputs;  ///< by their places in Signature; null: optional, and not there
  std::vector<NamedTensor> added;          ///< what `inputs` behind the clients' own point to
  std::vector<size_t> outputs;             ///< places in Signature::outputs, in the order of the answer
  uint64_t shape_key = 0;                  ///< equal for requests that may share a batch
  /// Elements of inputs whose shapes may differ in a batch, by place, and -1 of others; empty: no input's may.
  std::vector<int64_t> ragged;
  Clock::time_point deadline = Clock::time_point::max();  ///< in the queue
  uint64_t level = 0;                                     ///< of priority, from 0, the highest
  /// Takes the request back, to run it once more: called in place of the last answer, from within Instance::run() or
  /// before that returns. Null: the model's scheduler does not.
  std::function<void(std::unique_ptr<Pending> pending)> reschedule;
  /// Outputs that the server keeps, as places in Signature say: set by the run that answers.
  std::function<void(size_t kept, NamedTensor tensor)> keep;

 private:
  void hand_over(Response response);

  Respond respond_;
  ModelStatistics* statistics_;
  bool responded_ = false;  // at least once
  std::shared_ptr<const void> model_;
};

using PendingPtr = std::unique_ptr<Pending>;

/// Finds the request's tensors and checks them: fills in batch, inputs, outputs and shape_key. Throws
/// ServerError(invalid_argument), naming model and tensor.
void check_request(const Signature& signature, Pending& pending);

}  // namespace camshaft::server
