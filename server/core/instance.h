// What runs the requests of a model.
#pragma once

#include <vector>

#include "server/core/pending.h"

namespace camshaft::server {

/// One run at a time, on the thread that calls. Several instances of a model run at the same time.
class Instance {
 public:
  virtual ~Instance() = default;
  /// Runs requests of equal shapes as one batch, and answers each of them: what fails is answered, too. Of a decoupled
  /// model the answers may come after it returns.
  virtual void run(std::vector<PendingPtr> batch) noexcept = 0;
};

}  // namespace camshaft::server
