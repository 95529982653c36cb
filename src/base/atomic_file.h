// A file that appears whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace camshaft {

/// Writes to a temporary file in the target's folder and renames it over the target in commit(). Whatever goes wrong
/// before that, an exception, a full disk, commit() never called, the target is left as it was and the temporary is
/// removed. It has no name before commit() where the file system has such files, so that a process which is killed
/// leaves nothing. A target that exists and is neither a regular file nor a directory (/dev/null, a pipe) is written
/// directly. All members throw Error(io) that names the target and the reason. Not thread-safe.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. The system gets whole blocks of 2 MiB, but for the last.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  /// Appends zeros up to `offset`, which must not be below position().
  void pad_to(uint64_t offset);
  /// Overwrites bytes that were written already; position() stays.
  void overwrite(uint64_t offset, std::span<const std::byte> bytes);
  /// Bytes appended so far.
  uint64_t position() const { return position_; }

  /// Brings everything to the disk and gives the file its name. Nothing may be written afterwards.
  void commit();

 private:
  void flush();
  void write_through(const std::byte* data, size_t size);
  void remove_temporary() noexcept;
  void give_temporary_name();
  void copy_under_temporary_name();
  [[noreturn]] void fail(const std::string& action, int error) const;

  std::string path_;       // as given, for messages
  std::string target_;     // with symbolic links followed
  std::string temporary_;  // empty: without a name, written directly, or done
  bool is_unnamed_ = false;
  int fd_ = -1;
  uint64_t position_ = 0, written_ = 0;  // with what is gathered, and without
  std::vector<std::byte> gathered_;
};

}  // namespace camshaft
