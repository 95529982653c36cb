// How a program starts on every glibc. Until 2.33 a program brought the function that runs its constructors; the start
// files of newer systems bring none, and an older glibc would run no constructor at all. The newer ones run what is
// brought, and nothing else, too. Linked with --wrap=__libc_start_main.

using Main = int (*)(int argc, char** argv, char** environment);
using Hook = void (*)();

extern "C" {
extern Main init_array_begin[] __asm__("__init_array_start");
extern Main init_array_end[] __asm__("__init_array_end");
void init_section() __asm__("_init");
int start_of_glibc(Main main, int argc, char** argv, Main init, Hook fini, Hook loader_fini,
                   void* stack_end) __asm__("__real___libc_start_main");
int start(Main main, int argc, char** argv, Main init, Hook fini, Hook loader_fini,
          void* stack_end) __asm__("__wrap___libc_start_main");
}

namespace {

int run_constructors(int argc, char** argv, char** environment) {
  init_section();
  for (Main* constructor = init_array_begin; constructor != init_array_end; ++constructor)
    (*constructor)(argc, argv, environment);
  return 0;
}

}  // namespace

int start(Main main, int argc, char** argv, Main init, Hook fini, Hook loader_fini, void* stack_end) {
  return start_of_glibc(main, argc, argv, init != nullptr ? init : run_constructors, fini, loader_fini, stack_end);
}
