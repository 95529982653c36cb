// Memory of many megabytes, which is asked for and given back in every run of some operators.
#pragma once

#include <cstddef>
#include <memory>

namespace camshaft {

/// From here on memory comes in whole huge pages.
inline constexpr size_t least_large = size_t{2} << 20;

/// At least `bytes` bytes (least_large or more) that begin at a multiple of 2 MiB; null where the system has none.
/// `cleared`: they are 0. What is given up is kept for the next call, 64 MiB in all (see SpareRoom) and 16 blocks at
/// most, as an allocator keeps smaller blocks: 40 MB from the system take 4 ms to clear, and 1 ms to write.
std::shared_ptr<std::byte> make_large(size_t bytes, bool cleared);

/// A private mapping of `bytes` bytes, in whole pages, that begins at a multiple of 2 MiB; null where the system has
/// none. Zeros, in huge pages if it has them; not `writable`: addresses alone, for another mapping to take their place.
/// The caller unmaps it.
std::byte* map_large(size_t bytes, bool writable = true);

/// Bytes that are kept for the next call.
size_t spare_memory();

/// Lets make_large() keep more, as long as this lives: for who gives memory up that it will soon ask for again, as runs
/// do whose results have sizes that only running tells. Not thread-safe.
class SpareRoom {
 public:
  SpareRoom() = default;
  ~SpareRoom() { set(0); }
  SpareRoom(const SpareRoom&) = delete;
  SpareRoom& operator=(const SpareRoom&) = delete;

  /// So many bytes beside the 64 MiB. What is kept beyond the new limit is given back.
  void set(size_t bytes);
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

}  // namespace camshaft
