// A frame that nothing is unwound through: this file is compiled without unwind tables. pthread_exit() unwinds the
// stack, and ends the thread at once where that does not go on. It must not reach frames of C++: theirs would be
// unwound by the code of two unwinders, the system's and the one that is linked into this module, which ends the
// process.
extern "C" void camshaft_end_of_stack(void (*body)(void*), void* user);

extern "C" void camshaft_end_of_stack(void (*body)(void*), void* user) {
  body(user);
}
