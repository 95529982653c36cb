// An instance of a Python model: a process of its own.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "server/core/instance.h"
#include "server/core/python/python_calls.h"
#include "server/core/python/python_link.h"
#include "server/core/python/python_process.h"

namespace camshaft::server {

/// What a model's processes have in common.
struct PythonModel {
  std::string name;
  PythonEnvironment python;
  std::filesystem::path file, folder, version_folder;
  bool decoupled = false;
  /// How long a process may take to end, and a request that is under way while its model is unloaded.
  std::chrono::seconds patience{30};
};

/// Starts a process with the worker; the link is this end of its socket.
pid_t start_python(const PythonModel& model, std::shared_ptr<PythonLink>& link);
/// The message that has the process load the model's file. `op`: "initialize" or "auto_complete".
nlohmann::json load_message(const PythonModel& model, const char* op);

/// A process that ends on its own fails the requests that it has, is started again, and disturbs nothing else.
class PythonInstance : public Instance {
 public:
  /// Returns when the model has been initialised. `arguments` are those of initialize(). Throws
  /// ServerError(invalid_argument) with what the model raised.
  PythonInstance(std::shared_ptr<const PythonModel> model, nlohmann::json arguments, const Signature& signature,
                 ModelStatistics& statistics, ModelManager& models);
  /// Has the model finalized, and ends its process.
  ~PythonInstance() override;

  void run(std::vector<PendingPtr> batch) noexcept override;
  /// From now on a process that for the model's patience answers none of its requests is ended.
  void retire() noexcept;

 private:
  enum class State { starting, ready, failed };

  void supervise();
  void converse(const std::shared_ptr<PythonLink>& link);
  void handle(const std::shared_ptr<PythonLink>& link, const nlohmann::json& message);
  void initialized(const nlohmann::json& message);
  void executed(PythonLink& link, const nlohmann::json& message);
  void answer(PythonLink& link, const nlohmann::json& described);
  void reschedule(const nlohmann::json& numbers);
  Response response_of(PythonLink& link, const Pending& pending, const nlohmann::json& described) const;
  void process_ended(const std::string& how);
  nlohmann::json describe(PythonLink& link, const Pending& pending, uint64_t number) const;
  bool hand_over(std::vector<PendingPtr>& batch, const Timeline& timeline);

  const std::shared_ptr<const PythonModel> model_;
  const nlohmann::json arguments_;
  const Signature& signature_;
  ModelStatistics& statistics_;
  PythonCalls calls_;

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::starting;
  std::string failure_;                   ///< of a process that could not be started
  std::shared_ptr<PythonLink> link_;      ///< of the process that runs
  uint64_t generation_ = 0;               ///< counts processes
  uint64_t next_ = 0;                     ///< number of a request
  std::map<uint64_t, PendingPtr> taken_;  ///< answered by the supervisor's thread alone
  std::vector<uint64_t> executing_;       ///< those of the call of execute() that runs
  Timeline timeline_;                     ///< of that call
  uint64_t elements_ = 0;                 ///< of that call's batch
  bool counted_ = false;                  ///< whether that call is a client's: warm-up is not counted
  bool runs_ = false, ending_ = false, retired_ = false;
  std::optional<Clock::time_point> end_by_;  ///< then the process is killed
  Clock::time_point progress_;               ///< when a request last came or was answered

  std::thread supervisor_;  // last
};

}  // namespace camshaft::server
