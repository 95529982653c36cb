// What ranks meet over: engines that compute one model together, each on a thread or in a process of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

namespace camshaft {

/// One rank's end. All ranks make the same calls in the same order; one thread at a time.
class Communicator {
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
