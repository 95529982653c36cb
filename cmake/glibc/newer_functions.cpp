// What the headers of newer systems and the compiler's own libraries, linked statically, take from a glibc later than
// 2.28, made of what 2.28 has. A function that is missing here is an undefined reference when linking.
//
// Assembler names keep these apart from the declarations of the headers, which may be inline functions or other names.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" {

// Of 2.30, for std::condition_variable to wait by the steady clock.
int wait_by_clock(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                  const struct timespec* until) __asm__("pthread_cond_clockwait");

// Of 2.32. Reference counts are always atomic where it is 0, as they are once a thread was started.
char single_threaded __asm__("__libc_single_threaded") = 0;

// Of 2.33: functions that were inline in the headers before, with the version of the structure.
int stat_version_path(int version, const char* path, struct stat* to) __asm__("__xstat");
int stat_version_link(int version, const char* path, struct stat* to) __asm__("__lxstat");
int stat_version_file(int version, int file, struct stat* to) __asm__("__fxstat");
int stat_path(const char* path, struct stat* to) __asm__("stat");
int stat_link(const char* path, struct stat* to) __asm__("lstat");
int stat_file(int file, struct stat* to) __asm__("fstat");
int stat64_path(const char* path, struct stat* to) __asm__("stat64");
int stat64_link(const char* path, struct stat* to) __asm__("lstat64");
int stat64_file(int file, struct stat* to) __asm__("fstat64");

// Of 2.35, for exceptions to find their handlers.
int find_object(void* address, struct dl_find_object* result) __asm__("_dl_find_object");

// Of 2.36, for std::random_device.
uint32_t random_bits() __asm__("arc4random");

// Of 2.38: those of before, which also read binary literals where the base is 0 or 2.
long read_long(const char* text, char** end, int base) __asm__("strtol");
unsigned long read_unsigned_long(const char* text, char** end, int base) __asm__("strtoul");
long long read_long_long(const char* text, char** end, int base) __asm__("strtoll");
unsigned long long read_unsigned_long_long(const char* text, char** end, int base) __asm__("strtoull");
int scan_text(const char* text, const char* format, std::va_list to) __asm__("__isoc99_vsscanf");
long read_long_23(const char* text, char** end, int base) __asm__("__isoc23_strtol");
unsigned long read_unsigned_long_23(const char* text, char** end, int base) __asm__("__isoc23_strtoul");
long long read_long_long_23(const char* text, char** end, int base) __asm__("__isoc23_strtoll");
unsigned long long read_unsigned_long_long_23(const char* text, char** end, int base) __asm__("__isoc23_strtoull");
int scan_text_23(const char* text, const char* format, ...) __asm__("__isoc23_sscanf");

}  // extern "C"

namespace {

constexpr int64_t second_ns = 1000000000;

int64_t nanoseconds_of(const timespec& time) {
  return time.tv_sec * second_ns + time.tv_nsec;
}

}  // namespace

// A second at a time at most: who sets the system's clock back must not make anyone wait longer. Waking up early is
// allowed, and what waits looks at its clock again.
int wait_by_clock(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  timespec now{}, system{};
  if (clock_gettime(clock, &now) != 0) return EINVAL;
  clock_gettime(CLOCK_REALTIME, &system);
  const int64_t left = nanoseconds_of(*until) - nanoseconds_of(now);
  const int64_t end = nanoseconds_of(system) + std::clamp<int64_t>(left, 0, second_ns);
  const timespec at{end / second_ns, end % second_ns};
  const int result = pthread_cond_timedwait(condition, mutex, &at);
  return result == ETIMEDOUT && left > second_ns ? 0 : result;
}

namespace {

static_assert(sizeof(struct stat) == sizeof(struct stat64));
constexpr int stat_version = 1;  // of x86-64

struct Search {
  ElfW(Addr) address;
  struct dl_find_object* result;
};

// 1 where the object has the address and can be unwound.
int find_in_object(dl_phdr_info* object, size_t /*size*/, void* data) {
  const Search& search = *static_cast<Search*>(data);
  bool has_address = false;
  void* unwind_table = nullptr;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const ElfW(Addr) begin = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && search.address - begin < segment.p_memsz) {
      has_address = true;
      search.result->dlfo_map_start = reinterpret_cast<void*>(begin);
      search.result->dlfo_map_end = reinterpret_cast<void*>(begin + segment.p_memsz);
    } else if (segment.p_type == DLFO_EH_SEGMENT_TYPE) {
      unwind_table = reinterpret_cast<void*>(begin);
    }
  }
  search.result->dlfo_eh_frame = unwind_table;
  return has_address && unwind_table != nullptr;
}

}  // namespace

int stat_path(const char* path, struct stat* to) {
  return stat_version_path(stat_version, path, to);
}

int stat_link(const char* path, struct stat* to) {
  return stat_version_link(stat_version, path, to);
}

int stat_file(int file, struct stat* to) {
  return stat_version_file(stat_version, file, to);
}

int stat64_path(const char* path, struct stat* to) {
  return stat_path(path, to);
}

int stat64_link(const char* path, struct stat* to) {
  return stat_link(path, to);
}

int stat64_file(int file, struct stat* to) {
  return stat_file(file, to);
}

int find_object(void* address, struct dl_find_object* result) {
  *result = {};
  Search search = {reinterpret_cast<ElfW(Addr)>(address), result};
  return dl_iterate_phdr(find_in_object, &search) == 1 ? 0 : -1;
}

uint32_t random_bits() {
  uint32_t bits = 0;
  while (getrandom(&bits, sizeof(bits), 0) != sizeof(bits))
    if (errno != EINTR) std::abort();  // as the function in glibc does: its callers take any number for a random one
  return bits;
}

long read_long_23(const char* text, char** end, int base) {
  return read_long(text, end, base);
}

unsigned long read_unsigned_long_23(const char* text, char** end, int base) {
  return read_unsigned_long(text, end, base);
}

long long read_long_long_23(const char* text, char** end, int base) {
  return read_long_long(text, end, base);
}

unsigned long long read_unsigned_long_long_23(const char* text, char** end, int base) {
  return read_unsigned_long_long(text, end, base);
}

int scan_text_23(const char* text, const char* format, ...) {
  std::va_list to;
  va_start(to, format);
  const int count = scan_text(text, format, to);
  va_end(to);
  return count;
}
