#include "tools/exit_code.h"

namespace camshaft::tools {

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return 2;
    case ErrorCode::invalid_model:
    case ErrorCode::unsupported:
      return 3;
    case ErrorCode::verification_failed:
      return 4;
    case ErrorCode::io:
    case ErrorCode::corrupt_engine:
      return 5;
    case ErrorCode::out_of_memory:
      return 6;
    case ErrorCode::cancelled:
      return 130;
    case ErrorCode::internal:
      break;
  }
  return 1;
}

const char* const exit_codes_help =
    "Exit codes:\n"
    "  0    success\n"
    "  1    a defect in Camshaft itself\n"
    "  2    a wrong option, name, shape or dtype\n"
    "  3    the model is malformed, or uses something that is not supported\n"
    "  4    the engine's results differ from the reference\n"
    "  5    a file could not be read or written, or an engine file is damaged\n"
    "  6    out of memory\n"
    "  130  interrupted (Ctrl-C); 143 terminated\n";

}  // namespace camshaft::tools
