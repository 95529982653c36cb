#include "tools/resident_memory.h"

#include <unistd.h>

#include <fstream>

namespace camshaft::tools {

int64_t resident_bytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace camshaft::tools
