// Read-only bytes that outlive whoever opened them: a mapped file, or memory of our own.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/aligned_buffer.h"

namespace camshaft {

/// Immutable bytes with an owner. Keep the shared_ptr for as long as the bytes, or anything that points into them, are
/// used. Changing a file while it is mapped is not supported: truncating it makes later reads fail with SIGBUS.
class MappedFile {
 public:
  /// Maps the whole file. Throws Error(io) that names the path and says why: not found, no permission, a directory, not
  /// a regular file, empty.
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  /// The same, and it has a descriptor(): a model may have more files than a process may have open.
  static std::shared_ptr<const MappedFile> open_with_descriptor(const std::string& path);
  /// A copy of bytes that are in memory already, which starts at a multiple of 64: what a file aligns to that is
  /// aligned here too. `name` stands for the path in messages. Throws Error(out_of_memory).
  static std::shared_ptr<const MappedFile> from_bytes(std::span<const std::byte> bytes, std::string name = "memory");
  /// The same bytes in a file without a name, in the folder that TMPDIR names or in /tmp, which is gone with the last
  /// that holds on to it. Throws Error(io).
  static std::shared_ptr<const MappedFile> in_unnamed_file(std::span<const std::byte> bytes, std::string name);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  /// Of the file that is mapped, at a multiple of 2 MiB where it is as large; -1 where it was not kept, and for memory
  /// of our own.
  int descriptor() const { return descriptor_; }

  /// Asks the system to read this part soon. A hint: never fails; parts outside the file are ignored.
  void prefetch(size_t offset, size_t size) const;
  /// Takes the whole pages of this part out of the process's memory; they come back from the file when they are read.
  void release(size_t offset, size_t size) const;

 private:
  MappedFile() = default;
  void map();

  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  bool mapped_ = false;
  int descriptor_ = -1;
  AlignedBuffer owned_;
};

}  // namespace camshaft
