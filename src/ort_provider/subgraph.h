// Runs of one engine in sessions of ONNX Runtime.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ort_provider/host.h"
#include "ort_provider/options.h"
#include "ort_provider/runner_pool.h"
#include "runtime/engine.h"

namespace camshaft::ort_provider {

/// An engine behind a fused node: inputs are read where ONNX Runtime has them, outputs written where it wants them, on
/// a GPU too, but for texts and for outputs whose sizes only the run tells. Runs may overlap: each takes a context of
/// its own. Where tensors are on a GPU a run goes into ONNX Runtime's stream and does not wait for its end.
class Subgraph {
 public:
  /// `options`: where tensors are, the program's stream and what contexts are made with; `inputs` and `outputs`: what
  /// the engine's are named, in the order of the fused node's. Throws Error(invalid_argument) where it has others.
  Subgraph(const Host& host, Engine engine, const ProviderOptions& options, const std::vector<std::string>& inputs,
           const std::vector<std::string>& outputs);
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
  std::unique_ptr<Runner> take(const WorkStream* stream);
  std::shared_ptr<WorkStream> stream_for(const OrtKernelContext* kernel) const;
  DeviceId place_of(const OrtValue* value) const;
  void bind_inputs(Runner& runner, const OrtKernelContext* kernel);
  void bind_outputs(Runner& runner, OrtKernelContext* kernel);
  void give_results(const Runner& runner, OrtKernelContext* kernel) const;
  void enqueue(Runner& runner, const std::shared_ptr<WorkStream>& stream);

  const Host& host_;
  Engine engine_;
  ContextOptions options_;
  DeviceId memory_;
  std::optional<void*> stream_;  ///< the program's
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::shared_ptr<RunnerPool> runners_;
};

}  // namespace camshaft::ort_provider
