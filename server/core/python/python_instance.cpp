#include "server/core/python/python_instance.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "server/core/log.h"
#include "server/core/status.h"

namespace camshaft::server {
namespace {

using nlohmann::json;

/// How long a process that does not even start is left alone, the first time; then twice as long, and so on.
constexpr std::chrono::milliseconds first_pause{500}, longest_pause{30000};

LogKind log_kind_of(const std::string& level) {
  return level == "error"     ? LogKind::error
         : level == "warning" ? LogKind::warning
         : level == "info"    ? LogKind::info
                              : LogKind::verbose;
}

}  // namespace

pid_t start_python(const PythonModel& model, std::shared_ptr<PythonLink>& link) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    throw ServerError(StatusCode::resource_exhausted, "no socket for the Python process of model '" + model.name + "'");
  auto made = std::make_shared<PythonLink>(sockets[0]);
  try {
    const pid_t process = start_process(
        {model.python.interpreter.string(), (model.python.worker->path() / "camshaft_worker.py").string(), "3"},
        sockets[1]);
    close(sockets[1]);
    link = std::move(made);
    return process;
  } catch (...) {
    close(sockets[1]);
    throw;
  }
}

json load_message(const PythonModel& model, const char* op) {
  return {{"op", op},
          {"file", model.file.string()},
          {"model_folder", model.folder.string()},
          {"version_folder", model.version_folder.string()},
          {"decoupled", model.decoupled}};
}

PythonInstance::PythonInstance(std::shared_ptr<const PythonModel> model, json arguments, const Signature& signature,
                               ModelStatistics& statistics, ModelManager& models)
    : model_(std::move(model)),
      arguments_(std::move(arguments)),
      signature_(signature),
      statistics_(statistics),
      calls_(models) {
  supervisor_ = std::thread([this] { supervise(); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ != State::starting; });
  if (state_ == State::ready) return;
  const std::string failure = failure_;
  ending_ = true;
  changed_.notify_all();
  lock.unlock();
  supervisor_.join();
  throw ServerError(StatusCode::invalid_argument, failure);
}

PythonInstance::~PythonInstance() {
  std::shared_ptr<PythonLink> link;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    end_by_ = Clock::now() + model_->patience;
    link = link_;
  }
  changed_.notify_all();
  if (link) {
    try {
      link->send({{"op", "finalize"}});
    } catch (const ServerError&) {  // it has ended
    }
    link->wake();
  }
  supervisor_.join();
}

void PythonInstance::retire() noexcept {
  const std::lock_guard lock(mutex_);
  retired_ = true;
  if (!ending_) end_by_ = Clock::now() + model_->patience;
  if (link_) link_->wake();
}

// The life of one process after another.
void PythonInstance::supervise() {
  auto pause = first_pause;
  for (;;) {
    std::string how;
    bool was_ready = false;
    try {
      std::shared_ptr<PythonLink> link;
      const pid_t process = start_python(*model_, link);
      {
        const std::lock_guard lock(mutex_);
        link_ = link;
        ++generation_;
      }
      try {
        json message = load_message(*model_, "initialize");
        message["args"] = arguments_;
        link->send(message);
        converse(link);
      } catch (...) {
        how = current_exception_status().message;
      }
      link->shut();
      const std::string end = end_process(process, how.empty() ? model_->patience : std::chrono::seconds(0));
      if (how.empty()) how = end;
      was_ready = state_ == State::ready;  // changed by this thread alone
    } catch (...) {
      how = "could not be started: " + current_exception_status().message;
    }
    process_ended(how);
    std::unique_lock lock(mutex_);
    if (was_ready) {
      pause = first_pause;
    } else if (!ending_) {
      changed_.wait_for(lock, pause, [&] { return ending_; });
      pause = std::min(2 * pause, longest_pause);
    }
    if (ending_ || (retired_ && taken_.empty() && !runs_)) return;
    state_ = was_ready ? State::starting : State::failed;
  }
}

// Until the process is gone, or must go.
void PythonInstance::converse(const std::shared_ptr<PythonLink>& link) {
  json message;
  for (;;) {
    std::optional<Clock::time_point> until;
    {
      const std::lock_guard lock(mutex_);
      // An unloaded model that has nothing to do is ended by the destructor.
      if (ending_)
        until = end_by_;
      else if (end_by_ && (!taken_.empty() || runs_))
        until = std::max(*end_by_, progress_ + model_->patience);
    }
    switch (link->receive(message, until)) {
      case PythonLink::Received::closed:
        return;
      case PythonLink::Received::message:
        handle(link, message);
        break;
      case PythonLink::Received::woken:
        if (until && Clock::now() >= *until) {
          throw ServerError(StatusCode::unavailable, "did not end within " + std::to_string(model_->patience.count()) +
                                                         " s while its model was unloaded");
        }
    }
  }
}

void PythonInstance::handle(const std::shared_ptr<PythonLink>& link, const json& message) {
  const auto& op = message.at("op").get_ref<const std::string&>();
  if (op == "executed") {
    executed(*link, message);
  } else if (op == "response") {
    answer(*link, message);
  } else if (op == "initialized") {
    initialized(message);
  } else if (op == "broken") {
    throw ServerError(StatusCode::invalid_argument, message.at("error").get<std::string>());
  } else if (op == "log") {
    log(log_kind_of(message.at("level").get<std::string>()),
        "model '" + model_->name + "': " + message.at("text").get<std::string>());
  } else if (op == "is_cancelled") {
    bool cancelled = false;
    {
      const std::lock_guard lock(mutex_);
      const auto found = taken_.find(message.at("request").get<uint64_t>());
      cancelled = found != taken_.end() && found->second->request.cancellation.cancelled();
    }
    link->send({{"op", "answer"}, {"call", message.at("call")}, {"error", nullptr}, {"value", cancelled}});
  } else if (op == "metrics") {
    statistics_.own_metrics().set(this, own_metrics_of(message.at("families")));
  } else if (op == "which_cancelled") {
    json cancelled = json::array();
    {
      const std::lock_guard lock(mutex_);
      for (const json& number : message.at("requests")) {
        const auto found = taken_.find(number.get<uint64_t>());
        if (found == taken_.end() || found->second->request.cancellation.cancelled()) cancelled.push_back(number);
      }
    }
    link->send({{"op", "answer"}, {"call", message.at("call")}, {"error", nullptr}, {"value", std::move(cancelled)}});
  } else if (!calls_.handle(link, message)) {
    throw ServerError(StatusCode::internal, "sent a message '" + op + "' that the server does not know");
  }
}

void PythonInstance::initialized(const json& message) {
  if (!message.at("error").is_null())
    throw ServerError(StatusCode::invalid_argument, "failed to load: " + message.at("error").get<std::string>());
  {
    const std::lock_guard lock(mutex_);
    state_ = State::ready;
    if (generation_ > 1) log(LogKind::info, "model '" + model_->name + "': its Python process runs again");
  }
  changed_.notify_all();
}

void PythonInstance::process_ended(const std::string& how) {
  std::map<uint64_t, PendingPtr> lost;
  statistics_.own_metrics().drop(this);
  {
    const std::lock_guard lock(mutex_);
    link_ = nullptr;
    lost.swap(taken_);
    executing_.clear();
    runs_ = false;
    if (state_ != State::ready) {
      state_ = State::failed;
      failure_ = "the Python process of model '" + model_->name + "' " + how;
    }
    if (!ending_) log(LogKind::error, "the Python process of model '" + model_->name + "' " + how);
  }
  changed_.notify_all();
  for (auto& [number, pending] : lost) {
    pending->fail({StatusCode::unavailable, "the Python process of model '" + model_->name + "' " + how +
                                                " while it had the request; it is started again"},
                  FailureReason::backend);
  }
}

}  // namespace camshaft::server
