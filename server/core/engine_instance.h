// A context of an engine that runs batches of requests.
#pragma once

#include <memory>
#include <vector>

#include "camshaft/engine.hpp"
#include "server/core/buffer_pool.h"
#include "server/core/instance.h"

namespace camshaft::server {

/// Inputs of a request that is alone are bound where they came in, on the host or on the engine's GPU; those of several
/// are copied behind each other on the host, once. Outputs are slices of a piece of memory of the batch's, or of what a
/// lone request's client has asked for.
class EngineInstance : public Instance {
 public:
  EngineInstance(const Engine& engine, int threads, const Signature& signature, std::shared_ptr<BufferPool> pool);
  void run(std::vector<PendingPtr> batch) noexcept override;
  bool gets_ready_for_sizes() const override;

 private:
  struct Output {
    Dims dims;  ///< of the last set of shapes; empty and unknown where the data decides
    bool known = false;
    std::shared_ptr<std::byte> data;  ///< of this run
    bool in_target = false;           ///< it lies where the client wants it
    int64_t scattered = 0;            ///< elements that belong to requests that were answered
  };

  /// Whether a run can use elements where they are: on the host, or on the engine's own GPU.
  bool can_bind(const void* data, Device device, DType dtype) const;
  void run_together(std::vector<PendingPtr>& batch);
  int64_t bind_inputs(const std::vector<PendingPtr>& batch);
  void bind_input(size_t place, const std::vector<PendingPtr>& batch, int64_t total);
  void bind_texts(const TensorSpec& spec, const Dims& dims, const std::vector<PendingPtr>& batch, size_t place);
  void bind_batch_inputs(const std::vector<PendingPtr>& batch);
  void bind_outputs(const std::vector<PendingPtr>& batch);
  void take_outputs(const std::vector<PendingPtr>& batch, int64_t total);
  NamedTensor slice(size_t place, const Pending& pending, int64_t first) const;
  void answer(Pending& pending, int64_t first);

  const Signature& signature_;
  const Device device_;  ///< of the engine
  Context context_;
  std::shared_ptr<BufferPool> pool_;
  std::vector<Dims> input_dims_;                           ///< as the context knows them
  std::vector<std::shared_ptr<std::byte>> staging_;        ///< of this run
  std::vector<Dims> batch_input_dims_;                     ///< as the context knows them
  std::vector<std::shared_ptr<std::byte>> batch_staging_;  ///< of this run
  std::vector<Output> outputs_;
  bool shapes_changed_ = true;
  Cancellation never_;
};

}  // namespace camshaft::server
