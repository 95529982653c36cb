// Contexts of one engine that runs of sessions take in turn.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/context.h"

namespace camshaft::ort_provider {

class WorkStream;

/// A context, and what it was bound to last.
struct Runner {
  explicit Runner(Context made) : context(std::move(made)) {}

  Context context;
  std::vector<std::vector<int64_t>> input_dims;   ///< as they are set
  std::vector<std::vector<int64_t>> output_dims;  ///< for these, of bound outputs
  std::vector<std::vector<std::string>> texts;    ///< of inputs
  std::vector<int64_t> read;
  // Of the run under way:
  bool has_new_sizes = false;
  bool has_results_on_host = false;
  std::vector<const void*> on_gpu;  ///< inputs and outputs that are
};

/// Runners that no run holds. What was put into a stream may still be under way in some of them: these serve runs in
/// the same stream, which follow each other anyway, until somebody has waited.
class RunnerPool : public std::enable_shared_from_this<RunnerPool> {
 public:
  /// One for a run in that stream (null: a run that waits for its end); null where all are taken.
  std::unique_ptr<Runner> take(const WorkStream* stream);
  /// `stream`: that its run was put into, and was not waited for; null: it has ended.
  void give_back(std::unique_ptr<Runner> runner, std::shared_ptr<WorkStream> stream);
  /// Waits for the runs in that stream. Throws the first thing that went wrong in them, when it has waited for all.
  void settle(const WorkStream& stream);

 private:
  struct Idle {
    std::unique_ptr<Runner> runner;
    std::shared_ptr<WorkStream> stream;  ///< that its run may be under way in
  };

  std::mutex mutex_;
  std::vector<Idle> idle_;
};

}  // namespace camshaft::ort_provider
