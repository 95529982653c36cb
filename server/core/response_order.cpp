#include "server/core/response_order.h"

namespace camshaft::server {

void ResponseOrder::enter(Pending& pending) {
  auto place = std::make_shared<Place>();
  {
    const std::lock_guard lock(mutex_);
    places_.push_back(place);
  }
  pending.intercept([&](Respond respond) {
    place->respond = std::move(respond);
    return [order = shared_from_this(), place](Response response) { order->arrived(place, std::move(response)); };
  });
}

// Not under the lock: who gets a response may send the next request.
void ResponseOrder::arrived(const std::shared_ptr<Place>& place, Response response) {
  std::unique_lock lock(mutex_);
  place->done |= response.final;
  place->held.push_back(std::move(response));
  if (handing_over_) return;
  handing_over_ = true;
  while (!places_.empty()) {
    const std::shared_ptr<Place> first = places_.front();
    std::vector<Response> held;
    held.swap(first->held);
    if (first->done) places_.pop_front();
    if (held.empty()) break;
    lock.unlock();
    for (Response& next : held) first->respond(std::move(next));
    lock.lock();
  }
  handing_over_ = false;
}

}  // namespace camshaft::server
