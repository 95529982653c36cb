// What a Python model asks the server for while it runs: other models.
#pragma once

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "server/core/model_manager.h"
#include "server/core/python/python_link.h"

namespace camshaft::server {

/// Answers go to the link that the question came from, from any thread, and nowhere once its process has ended.
class PythonCalls {
 public:
  explicit PythonCalls(ModelManager& models) : models_(models) {}
  /// Waits for loads and unloads that processes asked for.
  ~PythonCalls();

  /// Whether `message` is such a question; it is then answered now or later.
  bool handle(const std::shared_ptr<PythonLink>& link, const nlohmann::json& message);

 private:
  void infer(const std::shared_ptr<PythonLink>& link, const nlohmann::json& message);
  void change(const std::shared_ptr<PythonLink>& link, const nlohmann::json& message);

  ModelManager& models_;
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

/// A JSON object of bools, numbers and texts. Throws ServerError(invalid_argument) for other values.
Parameters parameters_of(const nlohmann::json& object);
nlohmann::json json_of(const Parameters& parameters);

/// Between TritonError's numbers and ours.
StatusCode status_code_of(int triton_error);
int triton_error_of(StatusCode code);

}  // namespace camshaft::server
