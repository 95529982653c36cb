// Where the pages of large buffers lie on machines whose memory is in several places.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace camshaft {

class ThreadPool;

/// The nodes of memory (NUMA) that the kernel lists, "0-1" or "0,2" say; 1 where it lists none.
int memory_nodes(const std::string& file = "/sys/devices/system/node/has_memory");

/// Writes a zero to each page of memory that nothing was written to yet, a stretch of 2 MiB a thread in turn, on all
/// threads: the kernel gives a page from the memory of the core that touches it first, so that a buffer that all
/// threads use lies spread over the nodes of their cores, and not behind one of them.
void touch_pages(ThreadPool& pool, std::span<std::byte> memory);

}  // namespace camshaft
