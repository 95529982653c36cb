#include "api/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <system_error>

#include "base/logger.h"

namespace camshaft::api {

namespace {

thread_local std::string last_message;

// The codes of the C interface are those of ErrorCode behind the one for success.
static_assert(CAMSHAFT_INVALID_ARGUMENT == static_cast<int>(ErrorCode::invalid_argument) + 1);
static_assert(CAMSHAFT_VERIFICATION_FAILED == static_cast<int>(ErrorCode::verification_failed) + 1);
static_assert(CAMSHAFT_INTERNAL == static_cast<int>(ErrorCode::internal) + 1);

class Forwarding : public Logger {
 public:
  Forwarding(camshaft_log_function log, void* user, void (*release)(void*))
      : log_(log), user_(user), release_(release) {}
  ~Forwarding() override {
    if (release_ != nullptr) release_(user_);
  }
  Forwarding(const Forwarding&) = delete;
  Forwarding& operator=(const Forwarding&) = delete;
  void log(LogLevel level, std::string_view message) noexcept override {
    log_(user_, static_cast<int32_t>(level), message.data(), message.size());
  }

 private:
  camshaft_log_function log_;
  void* user_;
  void (*release_)(void*);
};

LogLevel checked_level(int32_t level) {
  if (level < CAMSHAFT_LOG_DEBUG || level > CAMSHAFT_LOG_ERROR)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is no level of messages: give 0 (debug) to 3 (error)", level));
  return static_cast<LogLevel>(level);
}

}  // namespace

camshaft_status fail(ErrorCode code, const char* message) noexcept {
  try {
    last_message = message;
  } catch (...) {
    last_message.clear();  // no memory even for the message: the code says it
  }
  return static_cast<camshaft_status>(code) + 1;
}

camshaft_status fail(const std::exception_ptr& exception) noexcept {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "out of memory; smaller shapes or fewer threads need less");
  } catch (const std::system_error& error) {
    return fail(ErrorCode::internal, (std::string("the system refused: ") + error.what()).c_str());
  } catch (const std::exception& error) {
    return fail(ErrorCode::internal, (std::string("internal error: ") + error.what()).c_str());
  } catch (...) {
    return fail(ErrorCode::internal, "internal error of unknown kind");
  }
}

void give_bytes(std::span<const std::byte> from, void** data, size_t* bytes) {
  given(data, "data");
  given(bytes, "bytes");
  void* copy = std::malloc(std::max<size_t>(from.size(), 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::copy(from.begin(), from.end(), static_cast<std::byte*>(copy));
  *data = copy;
  *bytes = from.size();
}

}  // namespace camshaft::api

using namespace camshaft;
using namespace camshaft::api;

const char* camshaft_version() {
  return CAMSHAFT_VERSION;
}

const char* camshaft_status_name(camshaft_status status) {
  if (status == CAMSHAFT_OK) return "ok";
  if (status < CAMSHAFT_OK || status > CAMSHAFT_INTERNAL) return "unknown";
  return to_string(static_cast<ErrorCode>(status - 1));
}

const char* camshaft_error_message() {
  return last_message.c_str();
}

camshaft_status camshaft_set_logger(camshaft_log_function log, void* user, void (*release)(void*), int32_t level) {
  return guarded([&] {
    const LogLevel checked = checked_level(level);
    set_logger(log == nullptr ? nullptr : std::make_shared<Forwarding>(log, user, release), checked);
  });
}

camshaft_status camshaft_set_log_level(int32_t level) {
  return guarded([&] { set_log_level(checked_level(level)); });
}

void camshaft_free(void* bytes) {
  std::free(bytes);
}
