// The variable `stderr` of static libraries that were compiled for programs, as distributions' are: their code reaches
// variables only inside of what it is linked into. It is all that keeps libpng's and libjpeg's out of a shared library.
// Linked with --wrap=stderr.
#include <cstdio>

extern "C" {
extern std::FILE* stderr_of_glibc __asm__("__real_stderr");
std::FILE* stderr_inside __asm__("__wrap_stderr") = nullptr;
}

namespace {

// Before the constructors of anything else.
[[gnu::constructor(101)]] void copy() {
  stderr_inside = stderr_of_glibc;
}

}  // namespace
