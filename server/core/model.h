// A version of a model that is loaded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/core/model_config.h"
#include "server/core/request.h"
#include "server/core/statistics.h"

namespace camshaft::server {

/// What requests of one version of a model go through: a scheduler over instances, or an ensemble's steps. Versions are
/// shared: one that is unloaded goes when its last request has been answered.
class Model : public std::enable_shared_from_this<Model> {
 public:
  virtual ~Model() = default;

  const std::string& name() const { return config().name(); }
  virtual const std::string& version() const = 0;
  /// As completed: what config.pbtxt leaves out is filled in from the model's file.
  virtual const ModelConfig& config() const = 0;
  /// "camshaft_plan", "onnxruntime_onnx", "python", "ensemble": what clients read as platform.
  virtual std::string platform() const = 0;
  virtual const std::vector<std::string>& labels(const std::string& output) const = 0;

  /// Checks the request against the configuration and puts it into the queue. Everything is answered through `respond`:
  /// what is wrong with the request (names, types, shapes, sizes) is invalid_argument, a full queue unavailable. The
  /// model stays until then.
  virtual void infer(Request request, Respond respond) noexcept = 0;

  virtual ModelStatistics& statistics() = 0;

  /// It is being unloaded: what it was given is answered still, but what hangs may be ended after a while.
  virtual void retire() noexcept {}
};

}  // namespace camshaft::server
