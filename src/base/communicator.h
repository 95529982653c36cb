// What ranks meet over: engines that compute one model together, each on a thread or in a process of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/device_id.h"

namespace camshaft {

/// A way from device to device for what ranks bring, past the host's memory: one rank's end. Kernels of the backend
/// that made it know what it is.
class DeviceLink {
 public:
  virtual ~DeviceLink() = default;
  /// Whose memory it reads and writes.
  virtual DeviceId device() const = 0;
  /// Throws Error(io) for what went wrong in work that the device does over it.
  virtual void check() = 0;
  /// Ends the work on this rank's device that waits for other ranks; nothing is done over it afterwards.
  virtual void abort() noexcept = 0;
  virtual bool was_aborted() const = 0;
};

/// One rank's end. All ranks make the same calls in the same order; one thread at a time. Owned by std::shared_ptr.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  /// How many ranks there are.
  virtual int size() const = 0;

  /// A part of what `rank` brought, from byte `offset` on.
  using Take = std::function<void(int rank, size_t offset, std::span<const std::byte> part)>;
  /// Each rank brings `bytes` bytes, `mine`, or nothing where that is empty, and is given what every rank has brought,
  /// its own too: part by part, of each part first that of rank 0. `call` is the same text on all ranks: Error
  /// (invalid_argument) on all of them where it is not. `waits`: as long as the others live; else, and where one of
  /// them fails, leaves or dies, Error(communication) after the communicator's timeout at the latest. After an error
  /// there is no further exchange.
  virtual void exchange(std::string_view call, std::span<const std::byte> mine, size_t bytes, const Take& take,
                        bool waits = false) = 0;
  /// Ends the exchanges of all ranks, now and from now on, with an Error that says why. Any thread may call it.
  virtual void abort(std::string_view why) noexcept = 0;
  /// For who waits for other ranks without an exchange, since `since`, and asks again and again: throws what an
  /// exchange would where they come no more. Those who have left or died have a second in which what they did before
  /// may still arrive.
  virtual void watch(std::chrono::steady_clock::time_point since) = 0;

  /// Whether the ranks have agreed on whether they have a link.
  bool has_settled_link() const { return has_settled_link_; }
  void settle_link(std::shared_ptr<DeviceLink> link) {
    link_ = std::move(link);
    has_settled_link_ = true;
  }
  /// Null: the ranks meet by exchanges alone. Either all of them have one, or none.
  DeviceLink* link() const { return link_.get(); }

 private:
  std::shared_ptr<DeviceLink> link_;
  bool has_settled_link_ = false;
};

/// From its construction until its end, the communicator of the runs of the calling thread.
class CommunicatorScope {
 public:
  explicit CommunicatorScope(Communicator* communicator);
  ~CommunicatorScope();
  CommunicatorScope(const CommunicatorScope&) = delete;
  CommunicatorScope& operator=(const CommunicatorScope&) = delete;

  /// Null: there is none. Then a rank rehearses: it takes every other one to hold what itself does, so that what one
  /// rank computes can be built, measured and verified alone.
  static Communicator* current();

 private:
  Communicator* before_;
};

}  // namespace camshaft
