#include "backends/cuda/driver/kernel_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "base/cache_folder.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

namespace camshaft::cuda {

namespace {

namespace fs = std::filesystem;

// A file is the magic, the size of the key, the key, the cubin, and the hash of all that. A hash of the key names it,
// and names can be copied: what is inside decides.
constexpr std::string_view magic = "camshaft kernel 1\n";
constexpr size_t number_bytes = sizeof(uint64_t);

// Native code runs with the rights of the user: nobody else may have written it.
bool is_users_own(const struct stat& status) {
  return status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Whether the folder may be used, and is made if it is not there. Warns of one that may not, once.
bool is_private(const std::string& folder) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) {
    if (errno != ENOENT) return false;
    std::error_code ignored;
    fs::create_directories(fs::path(folder).parent_path(), ignored);
    if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) return false;
    if (stat(folder.c_str(), &status) != 0) return false;
  }
  if (!S_ISDIR(status.st_mode)) return false;
  if (is_users_own(status)) return true;
  static std::mutex mutex;
  static std::set<std::string> warned_of;
  const std::lock_guard lock(mutex);
  if (warned_of.insert(folder).second)
    log_warning(fmt::format("the kernel cache '{}' is not used: it {}", folder,
                            status.st_uid != geteuid()
                                ? "belongs to another user"
                                : "can be written by others; 'chmod go-w' it, and it is used again"));
  return false;
}

std::vector<std::byte> read_file(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  struct stat status {};
  std::vector<std::byte> bytes;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && is_users_own(status))
    bytes.resize(static_cast<size_t>(status.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  close(file);
  return done == bytes.size() ? bytes : std::vector<std::byte>();
}

uint64_t number_at(const std::byte* bytes) {
  uint64_t number;
  std::memcpy(&number, bytes, number_bytes);
  return number;
}

// Empty: there is no such file, or it is damaged, of another key or somebody else's.
Cubin read(const fs::path& path, std::string_view key) {
  const std::vector<std::byte> bytes = read_file(path);
  const size_t head = magic.size() + number_bytes + key.size();
  if (bytes.size() <= head + number_bytes) return {};
  const size_t end = bytes.size() - number_bytes;
  const auto text = [&](size_t begin, size_t count) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()) + begin, count);
  };
  if (text(0, magic.size()) != magic || number_at(bytes.data() + magic.size()) != key.size() ||
      text(head - key.size(), key.size()) != key || number_at(bytes.data() + end) != hash64(text(0, end)))
    return {};
  return Cubin(bytes.begin() + static_cast<std::ptrdiff_t>(head), bytes.begin() + static_cast<std::ptrdiff_t>(end));
}

void write(const fs::path& path, std::string_view key, const Cubin& cubin) {
  try {
    AtomicFile file(path.string());
    Hasher hasher;
    const auto add = [&](std::span<const std::byte> bytes) {
      file.write(bytes);
      hasher.add(bytes);
    };
    const auto of_text = [](std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); };
    const auto of_number = [](const uint64_t& number) { return std::as_bytes(std::span(&number, 1)); };
    const uint64_t key_bytes = key.size();
    add(of_text(magic));
    add(of_number(key_bytes));
    add(of_text(key));
    add(cubin);
    const uint64_t hash = hasher.hash64();
    file.write(of_number(hash));
    file.commit();
    fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  } catch (const std::exception& e) {
    log_info(std::string("a compiled kernel is not kept: ") + e.what());
  }
}

}  // namespace

Cubin KernelCache::get(const Compiler& compiler, const KernelSource& source) const {
  if (folder_.empty() || !is_private(folder_)) return compiler.compile(source);
  const std::string key = source.text + '\n' + source.architecture + '\n' + compiler.version();
  const fs::path path = fs::path(folder_) / (to_hex(hash128(key)) + ".cubin");
  Cubin cubin = read(path, key);
  if (!cubin.empty()) return cubin;
  cubin = compiler.compile(source);
  write(path, key, cubin);
  return cubin;
}

std::string KernelCache::default_folder() {
  const std::string folder = user_cache_folder();
  return folder.empty() ? "" : (fs::path(folder) / "kernels").string();
}

}  // namespace camshaft::cuda
