// Calls of functions in libraries that others compiled, which may throw.
#pragma once

#include <string>
#include <type_traits>

namespace camshaft {

/// What a foreign function threw.
struct ForeignException {
  std::string message;       ///< of a std::exception
  bool is_standard = false;  ///< whether it was one
};

namespace detail {
/// Calls body(user); gives whether an exception came out of it, which is freed then, and what it was.
bool call_foreign(void (*body)(void*), void* user, ForeignException& thrown);
}  // namespace detail

/// Gives what `call` gives, a number or a pointer; a ForeignException is thrown for what comes out of it. C++'s own
/// `catch` cannot be used: the shipped files have a C++ library and an unwinder of their own inside, and where another
/// one's exception reaches them the process is ended. `call` is to have nothing that must be destroyed.
template <class Call>
auto foreign_call(const Call& call) {
  using Result = std::invoke_result_t<Call>;
  static_assert(std::is_trivial_v<Result>);
  struct Frame {
    const Call* call;
    Result result;
  } frame{&call, Result{}};
  ForeignException thrown;
  const auto body = [](void* user) {
    auto* of = static_cast<Frame*>(user);
    of->result = (*of->call)();
  };
  if (detail::call_foreign(body, &frame, thrown)) throw thrown;
  return frame.result;
}

}  // namespace camshaft
