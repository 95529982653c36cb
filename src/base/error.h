// The one exception that leaves the library.
#pragma once

#include <stdexcept>
#include <string>

namespace camshaft {

/// What kind of thing went wrong; decides the exit code of the command line.
enum class ErrorCode {
  invalid_argument,     ///< a wrong name, shape, dtype or option given by the caller
  invalid_model,        ///< the ONNX file is malformed or contradicts the standard
  unsupported,          ///< a valid model that uses something Camshaft cannot run
  io,                   ///< a file could not be read or written
  corrupt_engine,       ///< an engine file that is damaged or of another format version
  out_of_memory,        ///< an allocation failed
  cancelled,            ///< the caller asked to stop
  verification_failed,  ///< the engine's results differ from the reference
  internal,             ///< a defect in Camshaft itself
};

/// The printable name of a code, e.g. "invalid argument".
const char* to_string(ErrorCode code);

/// Everything that fails inside the library is thrown as an Error. `what()` is one message that names the thing that
/// failed, where (model node, file, offset), and what to do about it.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace camshaft
