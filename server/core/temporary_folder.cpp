#include "server/core/temporary_folder.h"

#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <set>

#include "server/core/status.h"

namespace camshaft::server {

namespace {

struct Folders {
  std::mutex mutex;
  std::set<std::filesystem::path> paths;
  bool have_ended = false;
};

// Never destroyed: owners may be static, too.
Folders& folders() {
  static auto* const all = new Folders;
  return *all;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  Folders& all = folders();
  const std::lock_guard lock(all.mutex);
  if (all.have_ended) throw ServerError(StatusCode::unavailable, "the server is ending");
  std::string name = (std::filesystem::temp_directory_path() / "camshaft-model-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    throw ServerError(StatusCode::internal, "cannot make the temporary folder " + name);
  path_ = name;
  all.paths.insert(path_);
}

void TemporaryFolder::end_all() {
  Folders& all = folders();
  const std::lock_guard lock(all.mutex);
  all.have_ended = true;
  std::error_code ignored;
  for (const std::filesystem::path& path : all.paths) std::filesystem::remove_all(path, ignored);
}

TemporaryFolder::~TemporaryFolder() {
  Folders& all = folders();
  const std::lock_guard lock(all.mutex);
  all.paths.erase(path_);
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void TemporaryFolder::write(const std::string& relative, const std::string& bytes) const {
  const std::filesystem::path given(relative);
  if (relative.empty() || given.is_absolute() || relative.find('\0') != std::string::npos ||
      std::any_of(given.begin(), given.end(), [](const auto& part) { return part == ".."; }))
    throw ServerError(StatusCode::invalid_argument, "the file '" + relative + "' is no path within a model's folder");
  const std::filesystem::path file = path_ / given;
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out)
    throw ServerError(StatusCode::resource_exhausted, "cannot write the file '" + relative + "' of " +
                                                          std::to_string(bytes.size()) + " bytes into " +
                                                          path_.string() + ": is the disk full?");
}

}  // namespace camshaft::server
