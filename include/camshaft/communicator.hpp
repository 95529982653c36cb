// What ranks meet over: engines that compute one model together.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "camshaft/camshaft.h"
#include "camshaft/cancellation.hpp"
#include "camshaft/error.hpp"

namespace camshaft {
inline namespace v1 {

/// One rank's end; copies are the same one. Each rank has an engine, a context and a communicator, and a thread or a
/// process that runs them:
///
///   std::vector<Communicator> ends = Communicator::local(2);
///   context.set_communicator(ends[rank]);  // on the thread of each rank
///   context.run();
///
/// What goes wrong on one rank ends the communicator, and is an Error of all: nobody waits for who does not come.
/// `timeout`: seconds that the others are waited for; 0: 300.
class Communicator {
 public:
  /// For threads of this process.
  static std::vector<Communicator> local(int size, double timeout = 0) {
    // The library refuses more ranks than these, and less than one, before it writes any.
    std::vector<camshaft_communicator*> made(static_cast<size_t>(size > 0 && size <= 1024 ? size : 1));
    detail::check(camshaft_communicators_create(size, timeout, made.data()));
    std::vector<Communicator> all;
    for (camshaft_communicator* each : made) all.push_back(Communicator(each));
    return all;
  }
  /// For processes of one machine and user that name the same: waits for all of them. See
  /// camshaft_communicator_join().
  static Communicator join(const std::string& name, int rank, int size, double timeout = 0) {
    camshaft_communicator* made = nullptr;
    detail::check(camshaft_communicator_join(name.c_str(), rank, size, timeout, &made));
    return Communicator(made);
  }
  /// The same until it is cancelled, then Error(cancelled).
  static Communicator join(const std::string& name, int rank, int size, double timeout,
                           const Cancellation& cancellation) {
    camshaft_communicator* made = nullptr;
    detail::check(
        camshaft_communicator_join_cancellable(name.c_str(), rank, size, timeout, cancellation.handle(), &made));
    return Communicator(made);
  }
  /// The same by the variables RANK, WORLD_SIZE and MASTER_PORT, which torchrun sets.
  static Communicator from_environment(double timeout = 0) {
    camshaft_communicator* made = nullptr;
    detail::check(camshaft_communicator_from_environment(timeout, &made));
    return Communicator(made);
  }
  static Communicator from_environment(double timeout, const Cancellation& cancellation) {
    camshaft_communicator* made = nullptr;
    detail::check(camshaft_communicator_join_cancellable(nullptr, 0, 0, timeout, cancellation.handle(), &made));
    return Communicator(made);
  }

  int rank() const { return camshaft_communicator_rank(handle_.get()); }
  int size() const { return camshaft_communicator_size(handle_.get()); }
  /// The root's bytes for all, which call it alike. Waits as long as the other ranks live.
  void broadcast(int root, void* data, size_t bytes) const {
    detail::check(camshaft_communicator_broadcast(handle_.get(), root, data, bytes));
  }
  /// Ends what all ranks do over it, now and later, with an Error that says why.
  void abort(const std::string& why) const { detail::check(camshaft_communicator_abort(handle_.get(), why.c_str())); }

  camshaft_communicator* handle() const { return handle_.get(); }

 private:
  explicit Communicator(camshaft_communicator* taken) : handle_(taken, camshaft_communicator_free) {}
  std::shared_ptr<camshaft_communicator> handle_;
};

}  // namespace v1
}  // namespace camshaft
