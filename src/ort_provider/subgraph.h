// Runs of one engine in sessions of ONNX Runtime.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ort_provider/host.h"
#include "runtime/engine.h"

namespace camshaft::ort_provider {

/// An engine behind a fused node: inputs are read where ONNX Runtime has them, outputs written where it wants them, on
/// a GPU too, but for texts and for outputs whose sizes only the run tells. Runs may overlap: each takes a context of
/// its own.
class Subgraph {
 public:
  /// `memory`: where tensors are, the host or a GPU; `inputs` and `outputs`: what the engine's are named, in the order
  /// of the fused node's. Throws Error(invalid_argument) where it has others.
  Subgraph(const Host& host, Engine engine, const ContextOptions& options, DeviceId memory,
           const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);
  ~Subgraph();
  Subgraph(const Subgraph&) = delete;
  Subgraph& operator=(const Subgraph&) = delete;

  const Engine& engine() const { return engine_; }
  /// Throws Error.
  void run(OrtKernelContext* context);

 private:
  struct Input {
    std::string name;
    DType dtype = DType::f32;
  };
  struct Output {
    std::string name;
    DType dtype = DType::f32;
    size_t rank = 0;
    bool is_bound = false;  ///< its sizes are known before the run
  };
  struct Runner;

  std::unique_ptr<Runner> take();
  void give_back(std::unique_ptr<Runner> runner);

  const Host& host_;
  Engine engine_;
  ContextOptions options_;
  DeviceId memory_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Runner>> idle_;
};

}  // namespace camshaft::ort_provider
