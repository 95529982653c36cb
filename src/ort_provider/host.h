// Calls of ONNX Runtime's functions, through the table that it gives.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "ort_provider/abi.h"

namespace camshaft::ort_provider {

/// The functions of the ONNX Runtime that has loaded this library. Every name is looked up in plugin/ort/slots.inc when
/// this is compiled; arguments must have the very types that the function's documentation gives.
class Host {
 public:
  /// Throws Error(unsupported) for a version that is older than interface_version.
  explicit Host(const ort::ApiBase& base);

  /// Of a function that gives no status.
  template <class Result, class... Args>
  Result call(size_t slot, Args... args) const {
    return reinterpret_cast<Result (*)(Args...)>(api_->functions[slot])(args...);
  }
  /// Of one that does. Throws Error(internal) with the status's message.
  template <class... Args>
  void ask(size_t slot, Args... args) const {
    check(call<OrtStatus*>(slot, args...), slot);
  }
  /// The one value that a function gives through its last argument.
  template <class Value, class... Args>
  Value get(size_t slot, Args... args) const {
    Value value = {};
    ask(slot, args..., &value);
    return value;
  }
  /// Frees a status that was given; throws as ask() does where it is one.
  void check(OrtStatus* status, size_t slot) const;

  const EpApi& ep() const { return *ep_; }
  const ModelEditorApi& editor() const { return *editor_; }
  const std::string& version() const { return version_; }

  std::map<std::string, std::string> pairs(const OrtKeyValuePairs* pairs) const;

  /// Does `work`, and makes a status of what it throws.
  template <class Work>
  OrtStatus* guarded(const Work& work) const noexcept {
    try {
      work();
      return nullptr;
    } catch (const Error& e) {
      return failure(e.code(), e.what());
    } catch (const std::exception& e) {
      return failure(ErrorCode::internal, e.what());
    } catch (...) {
      return failure(ErrorCode::internal, "something was thrown that is no exception");
    }
  }

 private:
  OrtStatus* failure(ErrorCode code, const char* message) const noexcept;

  const ort::Api* api_;
  const EpApi* ep_;
  const ModelEditorApi* editor_;
  std::string version_;
};

/// Messages of one session.
class Log {
 public:
  Log(const Host& host, const OrtLogger* logger) : host_(&host), logger_(logger) {}
  bool hears(Severity severity) const;
  void write(Severity severity, const std::string& message) const;
  void info(const std::string& message) const { write(info_message, message); }
  void warning(const std::string& message) const { write(warning_message, message); }

 private:
  const Host* host_;
  const OrtLogger* logger_;
};

}  // namespace camshaft::ort_provider
