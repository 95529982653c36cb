// Where the pages of large buffers lie on machines whose memory is in several places.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace camshaft {

class ThreadPool;

/// The nodes of memory (NUMA) that the kernel lists in this file, "0-1" or "0,2" say; 1 where it lists none.
int memory_nodes(const std::string& file);
/// Those of this machine; read once.
int memory_nodes();

/// Writes a zero to each page of memory that nothing was written to yet, a stretch of 2 MiB a thread in turn, on all
/// threads: the kernel gives a page from the memory of the core that touches it first, so that a buffer that all
/// threads use lies spread over the nodes of their cores, and not behind one of them. Whose turn it is depends on the
/// address: of many buffers that are smaller than that, each thread has some.
void touch_pages(ThreadPool& pool, std::span<std::byte> memory);

/// The same by the threads that contexts share, for new memory that they will read (weights), before something is
/// written to it. Nothing where memory is in one place, or for less than 64 KiB.
void spread_over_nodes(std::span<std::byte> memory, int nodes = memory_nodes());

}  // namespace camshaft
