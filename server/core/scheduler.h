// What a model's requests go to when they have been checked.
#pragma once

#include "server/core/pending.h"

namespace camshaft::server {

class Scheduler {
 public:
  /// Answers what was taken.
  virtual ~Scheduler() = default;
  /// Takes a checked request, whose answer may come on any thread. Throws ServerError for one that it does not take;
  /// the request is answered with that then.
  virtual void submit(PendingPtr& pending) = 0;
};

}  // namespace camshaft::server
