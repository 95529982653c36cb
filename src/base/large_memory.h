// Memory of many megabytes, which is asked for and given back in every run of some operators.
#pragma once

#include <cstddef>
#include <memory>

namespace camshaft {

/// From here on memory comes in whole huge pages.
inline constexpr size_t least_large = size_t{2} << 20;

/// At least `bytes` bytes (least_large or more) that begin at a multiple of 2 MiB; null where the system has none.
/// `cleared`: they are 0. What is given up is kept for the next call, 64 MiB in all and four blocks at most, as an
/// allocator keeps smaller blocks: 40 MB from the system take 4 ms to clear, and 1 ms to write.
std::shared_ptr<std::byte> make_large(size_t bytes, bool cleared);

/// A private mapping of `bytes` bytes, in whole pages, that begins at a multiple of 2 MiB; null where the system has
/// none. Zeros, in huge pages if it has them; not `writable`: addresses alone, for another mapping to take their place.
/// The caller unmaps it.
std::byte* map_large(size_t bytes, bool writable = true);

/// Bytes that are kept for the next call.
size_t spare_memory();

}  // namespace camshaft
