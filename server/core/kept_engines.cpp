#include "server/core/kept_engines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "server/core/log.h"

namespace camshaft::server {

namespace {

struct KeptEngine {
  timespec used;
  uint64_t bytes;
  std::filesystem::path file;
};

// The one that was used last first.
std::vector<KeptEngine> kept_engines(const std::filesystem::path& folder) {
  std::vector<KeptEngine> engines;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    struct stat state {};
    if (at->path().extension() != ".engine" || lstat(at->path().c_str(), &state) != 0 || !S_ISREG(state.st_mode))
      continue;
    engines.push_back({state.st_atim, static_cast<uint64_t>(state.st_size), at->path()});
  }
  std::sort(engines.begin(), engines.end(), [](const KeptEngine& a, const KeptEngine& b) {
    return std::tie(b.used.tv_sec, b.used.tv_nsec, a.file) < std::tie(a.used.tv_sec, a.used.tv_nsec, b.file);
  });
  return engines;
}

}  // namespace

void note_engine_use(const std::filesystem::path& engine) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);  // UTIME_NOW is the last tick: two uses within 4 ms would be one
  const timespec times[] = {now, {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
  utimensat(AT_FDCWD, engine.c_str(), times, 0);
}

void trim_engines(const EngineCache& cache) {
  if (cache.most_bytes == 0) return;
  const std::vector<KeptEngine> engines = kept_engines(cache.folder);
  uint64_t kept = 0;
  bool full = false;
  for (size_t i = 0; i < engines.size(); ++i) {
    full |= i > 0 && (kept > cache.most_bytes || engines[i].bytes > cache.most_bytes - kept);
    if (!full) {
      kept += engines[i].bytes;
      continue;
    }
    std::error_code failed;
    if (std::filesystem::remove(engines[i].file, failed))
      log(LogKind::verbose, "the kept engine " + engines[i].file.string() + " is removed: --engine-cache-size is " +
                                std::to_string(cache.most_bytes));
  }
}

}  // namespace camshaft::server
