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
  /// Whether the first run of a size takes much longer than others of it: on GPUs kernels are chosen and recorded then.
  virtual bool gets_ready_for_sizes() const { return false; }
};

}  // namespace camshaft::server
