#include "base/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <system_error>
#include <tuple>
#include <vector>

namespace camshaft {

std::string user_cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return (std::filesystem::path(cache) / "camshaft").string();
  if (const char* home = std::getenv("HOME"); home && *home)
    return (std::filesystem::path(home) / ".cache" / "camshaft").string();
  return "";
}

void note_use(const std::filesystem::path& file) {
  timespec times[] = {{}, {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
  // UTIME_NOW is the time of the kernel's last tick, up to 10 ms ago: two uses within a tick would have no order. Only
  // who owns a file may give it another time.
  clock_gettime(CLOCK_REALTIME, times);
  if (utimensat(AT_FDCWD, file.c_str(), times, 0) == 0) return;
  times[0] = {.tv_sec = 0, .tv_nsec = UTIME_NOW};
  utimensat(AT_FDCWD, file.c_str(), times, 0);
}

void trim_cache(const std::filesystem::path& folder, const std::string& prefix, const std::string& suffix,
                uint64_t most_bytes) {
  struct File {
    timespec used;
    uint64_t bytes;
    std::filesystem::path path;
  };
  std::vector<File> files;
  std::error_code failed;
  for (std::filesystem::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    const std::string name = it->path().filename().string();
    struct stat status;
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    if (lstat(it->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    files.push_back({status.st_atim, static_cast<uint64_t>(status.st_size), it->path()});
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return std::tie(b.used.tv_sec, b.used.tv_nsec, a.path) < std::tie(a.used.tv_sec, a.used.tv_nsec, b.path);
  });
  uint64_t kept = 0;
  for (const File& file : files) {
    const bool is_last_used = &file == files.data();
    if (is_last_used || file.bytes <= most_bytes - std::min(kept, most_bytes)) {
      kept += file.bytes;
    } else {
      kept = most_bytes;  // all that were used before it go, too
      std::error_code ignored;
      std::filesystem::remove(file.path, ignored);
    }
  }
}

}  // namespace camshaft
