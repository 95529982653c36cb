// What a Context holds.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>

#include "base/budget.h"
#include "runtime/async_runs.h"
#include "runtime/context.h"
#include "runtime/engine_impl.h"
#include "runtime/executor.h"
#include "runtime/kept_values.h"

namespace camshaft {

struct Context::Impl {
  Impl(std::shared_ptr<Engine::Shared> shared, const ContextOptions& options);
  ~Impl();

  size_t input_index(const std::string& name) const;
  size_t output_index(const std::string& name) const;
  /// The bound plan for the shapes set so far, from the cache or made now. Throws when a shape is missing.
  const BoundPlan& bind() { return *bind_entry().bound; }
  void check_profiles() const;
  void run(const RunPlace& place = {});
  void run_alone(const RunPlace& place);
  /// Throws Error(invalid_argument), which begins with `what`, for an engine that no GPU runs.
  void check_has_gpu(const char* what) const;
  /// Which go over the communicator that there was.
  void forget_recordings();
  /// Throws Error(invalid_argument) for memory that an input or output ("input 'x'") cannot be in.
  void check_memory(const std::string& what, const TensorInfo& info, const void* data, DeviceId device) const;
  void set_memory(size_t input, const CallerBuffer& buffer);
  /// Throws Error(invalid_argument) for an empty completion, or while one is running.
  void start_async(std::function<void(std::exception_ptr)> completion);

  std::shared_ptr<Engine::Shared> shared;
  std::shared_ptr<const Engine::Impl> engine;  ///< with the weights of the last run
  std::vector<std::optional<Dims>> input_dims;
  std::vector<Tensor> container_inputs;  ///< copies; undefined for other inputs
  Executor executor;
  CallerMemory memory;
  std::vector<std::string> adapters;  ///< by the name that chooses them, see runtime/adapters.h
  bool may_overlap = true;            ///< a binding has changed since outputs were found to share no memory
  size_t adapter_input = 0;           ///< of an engine that has some
  bool has_run = false;

  std::shared_ptr<Communicator> communicator;
  bool rehearses = false;  ///< see Context::rehearse()

  size_t memory_bytes() const { return executor.memory_bytes() + static_cast<size_t>(kept_bytes()); }

 private:
  struct CacheEntry {
    std::vector<Dims> dims;
    std::unique_ptr<BoundPlan> bound;
    KeptValues kept;
    Recordings recordings;
    bool is_pinned = false;     ///< a recording of the caller's uses what its launches have on the device
    std::string collectives{};  ///< see described_collectives()
  };
  /// Goes on with the engine's current weights, if these are others. What was enqueued before is done with the old
  /// ones when this returns.
  void take_weights();
  CacheEntry& bind_entry();
  CacheEntry* find_entry();  // null: not bound yet
  /// Gives up entries, the longest unused first, until there is room for another one that keeps so many bytes.
  void make_room(int64_t kept_bytes);
  int64_t kept_bytes() const;    // of all entries
  std::list<CacheEntry> cache_;  // most recently used first
  /// Weights before, and what recordings of the caller have of them, which may run as long as the context is there.
  struct Retired {
    std::shared_ptr<const Engine::Impl> engine;
    std::list<CacheEntry> pinned;
  };
  std::list<Retired> retired_;
  std::shared_ptr<Budget> budget_;  // null: nothing is limited

  std::unique_ptr<AsyncRuns> async_;  // once somebody asks for one
};

}  // namespace camshaft
