#include "api/communicator.h"

#include <fmt/format.h>

#include <cstring>

#include "api/options.h"
#include "api/status.h"
#include "base/work_scope.h"
#include "runtime/rank_environment.h"
#include "runtime/shared_communicator.h"

using namespace camshaft;
using namespace camshaft::api;

namespace {

double timeout_of(double given) {
  return given == 0 ? usual_communicator_timeout : given;
}

// `name`: null for what the environment says.
camshaft_communicator* joined(const char* name, int32_t rank, int32_t size, double timeout,
                              const camshaft_cancellation* cancellation) {
  const Cancellation never;
  const WorkScope scope(cancellation ? cancellation->flag : never);
  RankEnvironment found{rank, size, name ? name : ""};
  if (!name) found = rank_environment();
  return new camshaft_communicator{join_communicator(found.name, found.rank, found.size, timeout_of(timeout))};
}

}  // namespace

camshaft_status camshaft_communicators_create(int32_t size, double timeout, camshaft_communicator** communicators) {
  return guarded([&] {
    given(communicators, "communicators");
    std::vector<std::unique_ptr<camshaft_communicator>> made;
    for (auto& each : local_communicators(size, timeout_of(timeout)))
      made.push_back(std::make_unique<camshaft_communicator>(camshaft_communicator{std::move(each)}));
    for (size_t r = 0; r < made.size(); ++r) communicators[r] = made[r].release();
  });
}

camshaft_status camshaft_communicator_join(const char* name, int32_t rank, int32_t size, double timeout,
                                           camshaft_communicator** communicator) {
  return guarded([&] {
    give(communicator, "communicator", [&] { return joined(given(name, "name"), rank, size, timeout, nullptr); });
  });
}

camshaft_status camshaft_communicator_from_environment(double timeout, camshaft_communicator** communicator) {
  return guarded([&] { give(communicator, "communicator", [&] { return joined(nullptr, 0, 0, timeout, nullptr); }); });
}

camshaft_status camshaft_communicator_join_cancellable(const char* name, int32_t rank, int32_t size, double timeout,
                                                       const camshaft_cancellation* cancellation,
                                                       camshaft_communicator** communicator) {
  return guarded(
      [&] { give(communicator, "communicator", [&] { return joined(name, rank, size, timeout, cancellation); }); });
}

void camshaft_communicator_free(camshaft_communicator* communicator) {
  delete communicator;
}

int32_t camshaft_communicator_rank(const camshaft_communicator* communicator) {
  return communicator->communicator->rank();
}

int32_t camshaft_communicator_size(const camshaft_communicator* communicator) {
  return communicator->communicator->size();
}

camshaft_status camshaft_communicator_broadcast(camshaft_communicator* communicator, int32_t root, void* data,
                                                size_t bytes) {
  return guarded([&] {
    Communicator& over = *given(communicator, "communicator")->communicator;
    if (bytes > 0) given(data, "data");
    if (root < 0 || root >= over.size())
      throw Error(ErrorCode::invalid_argument, fmt::format("the root is rank {} of {}", root, over.size()));
    auto* const to = static_cast<std::byte*>(data);
    const bool brings = over.rank() == root;
    over.exchange(
        fmt::format("a broadcast of {} bytes from rank {}", bytes, root),
        brings ? std::span<const std::byte>(to, bytes) : std::span<const std::byte>(), bytes,
        [&](int rank, size_t offset, std::span<const std::byte> part) {
          if (!brings && rank == root && !part.empty()) std::memcpy(to + offset, part.data(), part.size());
        },
        true);
  });
}

camshaft_status camshaft_communicator_abort(camshaft_communicator* communicator, const char* why) {
  return guarded([&] { given(communicator, "communicator")->communicator->abort(given(why, "why")); });
}
