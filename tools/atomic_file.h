// A file that appears whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace camshaft::tools {

/// Writes to a temporary file in the target's folder and renames it over the target in commit(). Whatever goes wrong
/// before that, an exception, a full disk, commit() never called, the target is left as it was and the temporary is
/// removed. It has no name before commit() where the file system has such files, so that a process which is killed
/// leaves nothing. A target that exists and is neither a regular file nor a directory (/dev/null, a pipe) is written
/// directly. All members throw Error(io) that names the target and the reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends.
  void write(std::span<const std::byte> bytes);
  /// Overwrites bytes that were written already; position() stays.
  void overwrite(uint64_t offset, std::span<const std::byte> bytes);
  /// Bytes appended so far.
  uint64_t position() const { return position_; }
  /// Brings everything to the disk and gives the file its name. Nothing may be written afterwards.
  void commit();

 private:
  void give_temporary_name();
  void copy_under_temporary_name();
  [[noreturn]] void fail(const std::string& action, int error) const;

  std::string path_;       // as given, for messages
  std::string target_;     // with symbolic links followed
  std::string temporary_;  // empty: without a name, written directly, or done
  bool is_unnamed_ = false;
  int fd_ = -1;
  uint64_t position_ = 0;
};

}  // namespace camshaft::tools
