// Responses in the order of their requests.
#pragma once

#include <deque>
#include <memory>
#include <mutex>

#include "server/core/pending.h"

namespace camshaft::server {

/// Holds responses back until those of all requests before have been handed over. Safe from several threads; one of
/// them hands over, for all.
class ResponseOrder : public std::enable_shared_from_this<ResponseOrder> {
 public:
  /// Gives the request its place behind all before.
  void enter(Pending& pending);

 private:
  struct Place {
    Respond respond;
    std::vector<Response> held;
    bool done = false;
  };
  void arrived(const std::shared_ptr<Place>& place, Response response);

  std::mutex mutex_;
  bool handing_over_ = false;
  std::deque<std::shared_ptr<Place>> places_;
};

}  // namespace camshaft::server
