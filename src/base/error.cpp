#include "base/error.h"

namespace camshaft {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid argument";
    case ErrorCode::invalid_model:
      return "invalid model";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::io:
      return "input/output error";
    case ErrorCode::corrupt_engine:
      return "corrupt engine";
    case ErrorCode::out_of_memory:
      return "out of memory";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::verification_failed:
      return "verification failed";
    case ErrorCode::internal:
      return "internal error";
  }
  return "unknown error";
}

}  // namespace camshaft
