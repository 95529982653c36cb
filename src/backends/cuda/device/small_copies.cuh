// Copies of a few bytes each between the device's memory and the host's, which the device reads and writes by itself: a
// block a copy.

extern "C" __global__ void __launch_bounds__(256) small_copies(const __grid_constant__ SmallCopiesParameters p) {
  take_turn();
  const CopiedBytes& copy = p.copy[blockIdx.x];
  const bool by_words = (reinterpret_cast<u64>(copy.to) | reinterpret_cast<u64>(copy.from)) % 4 == 0;
  const u32 words = by_words ? copy.bytes / 4 : 0;
  for (u32 i = threadIdx.x; i < words; i += blockDim.x)
    reinterpret_cast<u32*>(copy.to)[i] = reinterpret_cast<const u32*>(copy.from)[i];
  for (u32 i = words * 4 + threadIdx.x; i < copy.bytes; i += blockDim.x) copy.to[i] = copy.from[i];
}
