// What the C++ library throws for lack of memory, as an Error that says what it was wanted for.
#pragma once

#include <new>
#include <stdexcept>
#include <string>

#include "base/error.h"

namespace camshaft {

/// Does `work` and returns its result. std::bad_alloc, and std::length_error of containers that no memory could hold,
/// become Error(out_of_memory) with the text that `message()` returns.
template <class Message, class Work>
decltype(auto) name_out_of_memory(const Message& message, const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory, message());
  } catch (const std::length_error&) {
    throw Error(ErrorCode::out_of_memory, message());
  }
}

}  // namespace camshaft
