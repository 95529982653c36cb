// Parts of a mapped file in memory of the process's own, under the addresses that they have in the mapping.
#pragma once

#include <cstddef>
#include <memory>

#include "base/fresh_memory.h"
#include "base/mapped_file.h"

namespace camshaft {

/// What is brought lies in the process's memory, in huge pages where it is large, until it is dropped; everything else
/// of the file stays readable, and the system reads it when somebody looks. So whoever has a pointer into the mapping
/// reads the same bytes at any time, and only what is brought is sure to be there at once.
///
/// A mapping's own pages would do, and cost more: taking 1 GB of them out takes 0.3 to 0.8 s, and this 0.02 s; reading
/// through the system's cache gave 0.45 GB/s, past it (O_DIRECT, 16 MiB at a time) 1.2 GB/s (Linux 6.18, a virtual
/// disk).
class ResidentParts {
 public:
  /// Offsets of parts are multiples of this.
  static constexpr size_t alignment = size_t{64} << 10;

  /// Takes all pages of the file out of the process. One at a time may have parts of a file. Throws
  /// Error(invalid_argument) for memory that is no file's, Error(io).
  explicit ResidentParts(std::shared_ptr<const MappedFile> file);
  ~ResidentParts();
  ResidentParts(const ResidentParts&) = delete;
  ResidentParts& operator=(const ResidentParts&) = delete;

  /// Reads a part: `bytes` is a multiple of the alignment, or reaches to the file's end. Nothing changes where it
  /// throws Error(io), as when the file has become shorter, or Error(out_of_memory). Memory for the next part, of that
  /// many bytes or fewer, is made ready meanwhile.
  void bring(size_t offset, size_t bytes, size_t next_bytes = 0);
  /// Gives the memory back that was made ready.
  void drop_ahead() { ahead_.prepare(0); }
  /// Gives the part's memory back. Throws Error(out_of_memory) when the process has too many mappings.
  void drop(size_t offset, size_t bytes);
  const MappedFile& file() const { return *file_; }

 private:
  void read(std::byte* to, size_t offset, size_t bytes);

  std::shared_ptr<const MappedFile> file_;
  int direct_ = -1;  // the same file past the system's cache, where its file system has that
  bool asks_cache_ = true;
  MemoryAhead ahead_;
};

}  // namespace camshaft
