// What the emulated devices are: all alike.
#pragma once

#include <cstddef>

namespace emulator::facts {

constexpr const char* name = "emulated GPU";
constexpr int multiprocessors = 4;  // as many blocks run at once
constexpr int l2_bytes = 4 << 20;
constexpr int memory_kilohertz = 1000000, memory_bus_bits = 512;  // 128 GB/s
constexpr int kilohertz = 1500000;
constexpr size_t most_shared_bytes_per_block = 227 * 1024;  // of any capability
constexpr unsigned shared_bytes_without_asking = 48 * 1024;
constexpr unsigned threads_per_block = 1024;

/// What fresh memory is full of: -4e8 as f32, -23 as f16.
constexpr unsigned char unwritten = 0xcd;

/// Numbers that the environment may set, or what they are without.
long from_environment(const char* variable, long otherwise);

/// CAMSHAFT_EMULATED_DEVICES, or 1.
int devices();
/// Of each: CAMSHAFT_EMULATED_MEMORY, or 8 GiB.
size_t memory_bytes();
/// Compute capability, 80 for 8.0; the environment's CAMSHAFT_EMULATED_CAPABILITY, or 90.
int capability();
/// Of memory that is mapped to addresses; the environment's CAMSHAFT_EMULATED_GRANULARITY, or 64 KiB (a GPU's is 2
/// MiB).
size_t granularity();
/// As much as GPUs of the capability have.
size_t shared_bytes_per_block();

}  // namespace emulator::facts
