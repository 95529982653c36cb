#include "server/core/status.h"

#include <new>

#include "camshaft/error.hpp"

namespace camshaft::server {

namespace {

StatusCode code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return StatusCode::invalid_argument;
    case ErrorCode::unsupported:
      return StatusCode::unsupported;
    case ErrorCode::out_of_memory:
      return StatusCode::resource_exhausted;
    case ErrorCode::cancelled:
      return StatusCode::cancelled;
    default:
      return StatusCode::internal;
  }
}

}  // namespace

Status current_exception_status() {
  try {
    throw;
  } catch (const ServerError& error) {
    return error.status();
  } catch (const Error& error) {
    return {code_of(error.code()), error.what()};
  } catch (const std::bad_alloc&) {
    return {StatusCode::resource_exhausted, "the server is out of memory"};
  } catch (const std::exception& error) {
    return {StatusCode::internal, error.what()};
  } catch (...) {
    return {StatusCode::internal, "an exception of an unknown type"};
  }
}

}  // namespace camshaft::server
