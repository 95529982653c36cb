#include "base/foreign_call.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unwind.h>

#include <exception>
#include <typeinfo>

namespace camshaft::detail {

namespace {

// The exception that stopped at a call on this thread.
thread_local _Unwind_Exception* stopped = nullptr;

bool is_ours(const void* address) {
  Dl_info there, here;
  return dladdr(address, &there) != 0 && dladdr(reinterpret_cast<const void*>(&call_foreign), &here) != 0 &&
         there.dli_fbase == here.dli_fbase;
}

/// A function of the library that `address` is in; null where it is in ours, or exports none of that name.
template <class Function>
Function* beside(const void* address, const char* name) {
  Dl_info there;
  if (is_ours(address) || dladdr(address, &there) == 0 || !there.dli_fname) return nullptr;
  void* const library = dlopen(there.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  if (!library) return nullptr;
  auto* const function = reinterpret_cast<Function*>(dlsym(library, name));
  dlclose(library);  // whoever throws keeps it open
  return function;
}

ForeignException read_exception(_Unwind_Exception* exception) {
  ForeignException read;
  const auto* const runtime = reinterpret_cast<const void*>(exception->exception_cleanup);
  auto* begin = beside<void*(void*)>(runtime, "__cxa_begin_catch");
  auto* end = beside<void()>(runtime, "__cxa_end_catch");
  auto* type = beside<std::type_info*()>(runtime, "__cxa_current_exception_type");
  auto* standard = beside<std::type_info>(runtime, "_ZTISt9exception");
  if (is_ours(runtime)) {
    begin = [](void* e) { return __cxxabiv1::__cxa_begin_catch(e); };
    end = [] { __cxxabiv1::__cxa_end_catch(); };
    type = [] { return __cxxabiv1::__cxa_current_exception_type(); };
    standard = const_cast<std::type_info*>(&typeid(std::exception));
  }
  if (!begin || !end || !type || !standard) {  // a C++ library inside of the library, or none
    if (exception->exception_cleanup) exception->exception_cleanup(_URC_FOREIGN_EXCEPTION_CAUGHT, exception);
    return read;
  }
  // It follows its header, but where it is thrown again by std::rethrow_exception().
  const bool has_object = (exception->exception_class & 0xff) == 0;
  void* object = exception + 1;
  begin(exception);
  const std::type_info* const thrown = type();
  if (has_object && thrown && standard->__do_catch(thrown, &object, 1)) {
    read.is_standard = true;
    read.message = static_cast<std::exception*>(object)->what();
  }
  end();
  return read;
}

}  // namespace

#if defined(__x86_64__) || defined(__aarch64__)

extern "C" {

int camshaft_stop_at_call(void (*body)(void*), void* user);
extern const char camshaft_stopped_at_call[];

/// What unwinders ask at such a call: each exception stops there. Setting registers, which C++'s own function does
/// here, is what only the unwinder that is at work can.
_Unwind_Reason_Code camshaft_personality_of_call(int, _Unwind_Action actions, _Unwind_Exception_Class,
                                                 _Unwind_Exception* exception, _Unwind_Context* context) {
  if ((actions & _UA_SEARCH_PHASE) != 0) return _URC_HANDLER_FOUND;
  if ((actions & _UA_HANDLER_FRAME) == 0) return _URC_CONTINUE_UNWIND;  // a thread that is ended
  auto* set = beside<void(_Unwind_Context*, _Unwind_Ptr)>(__builtin_return_address(0), "_Unwind_SetIP");
  if (!set) set = _Unwind_SetIP;
  stopped = exception;
  set(context, reinterpret_cast<_Unwind_Ptr>(camshaft_stopped_at_call));
  return _URC_INSTALL_CONTEXT;
}
}

// int camshaft_stop_at_call(body, user): body(user); return 0; and behind it where exceptions stop: return 1.
#if defined(__x86_64__)
asm(R"(
  .pushsection .text
  .type camshaft_stop_at_call, @function
  .globl camshaft_stop_at_call
  .hidden camshaft_stop_at_call
camshaft_stop_at_call:
  .cfi_startproc
  .cfi_personality 0x9b, camshaft_personality_place
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  movq %rdi, %rax
  movq %rsi, %rdi
  call *%rax
  xorl %eax, %eax
  jmp 1f
  .globl camshaft_stopped_at_call
  .hidden camshaft_stopped_at_call
camshaft_stopped_at_call:
  movl $1, %eax
1:
  popq %rbp
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
  .size camshaft_stop_at_call, . - camshaft_stop_at_call
  .popsection
  .pushsection .data.rel.ro, "aw"
  .balign 8
camshaft_personality_place:
  .quad camshaft_personality_of_call
  .popsection
)");
#else
asm(R"(
  .pushsection .text
  .type camshaft_stop_at_call, %function
  .globl camshaft_stop_at_call
  .hidden camshaft_stop_at_call
camshaft_stop_at_call:
  .cfi_startproc
  .cfi_personality 0x9b, camshaft_personality_place
  stp x29, x30, [sp, -16]!
  .cfi_def_cfa_offset 16
  .cfi_offset 29, -16
  .cfi_offset 30, -8
  mov x29, sp
  .cfi_def_cfa_register 29
  mov x2, x0
  mov x0, x1
  blr x2
  mov w0, 0
  b 1f
  .globl camshaft_stopped_at_call
  .hidden camshaft_stopped_at_call
camshaft_stopped_at_call:
  mov w0, 1
1:
  ldp x29, x30, [sp], 16
  .cfi_def_cfa 31, 0
  ret
  .cfi_endproc
  .size camshaft_stop_at_call, . - camshaft_stop_at_call
  .popsection
  .pushsection .data.rel.ro, "aw"
  .balign 8
camshaft_personality_place:
  .xword camshaft_personality_of_call
  .popsection
)");
#endif

bool call_foreign(void (*body)(void*), void* user, ForeignException& thrown) {
  if (camshaft_stop_at_call(body, user) == 0) return false;
  thrown = read_exception(stopped);
  stopped = nullptr;
  return true;
}

#else

bool call_foreign(void (*body)(void*), void* user, ForeignException& thrown) {
  try {
    body(user);
    return false;
  } catch (const std::exception& e) {
    thrown = {e.what(), true};
  } catch (...) {
  }
  return true;
}

#endif

}  // namespace camshaft::detail
