// The one exception that the C++ interface throws.
#pragma once

#include <stdexcept>
#include <string>

#include "camshaft/camshaft.h"

namespace camshaft {
inline namespace v1 {

/// What kind of thing went wrong; decides the exit code of the command line.
enum class ErrorCode {
  invalid_argument = CAMSHAFT_INVALID_ARGUMENT,        ///< a wrong name, shape, dtype or option given by the caller
  invalid_model = CAMSHAFT_INVALID_MODEL,              ///< the ONNX file is malformed or contradicts the standard
  unsupported = CAMSHAFT_UNSUPPORTED,                  ///< a valid model that uses something Camshaft cannot run
  io = CAMSHAFT_IO,                                    ///< a file could not be read or written
  corrupt_engine = CAMSHAFT_CORRUPT_ENGINE,            ///< an engine that is damaged or of another format version
  out_of_memory = CAMSHAFT_OUT_OF_MEMORY,              ///< an allocation failed
  cancelled = CAMSHAFT_CANCELLED,                      ///< the caller asked to stop
  verification_failed = CAMSHAFT_VERIFICATION_FAILED,  ///< the engine's results differ from the reference
  internal = CAMSHAFT_INTERNAL,                        ///< a defect in Camshaft itself
};

/// The printable name of a code, e.g. "invalid argument".
inline const char* to_string(ErrorCode code) {
  return camshaft_status_name(static_cast<camshaft_status>(code));
}

/// Whatever fails in the library. `what()` is one message that names the thing that failed, where (model node, file,
/// offset), and what to do about it.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

namespace detail {

/// Throws what a call of the C interface failed with.
inline void check(camshaft_status status) {
  if (status != CAMSHAFT_OK) throw Error(static_cast<ErrorCode>(status), camshaft_error_message());
}

}  // namespace detail

}  // namespace v1
}  // namespace camshaft
