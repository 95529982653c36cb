// Bringing memory into the device's caches: `count` times 16 bytes are read and, with `rewrite`, written as they were.

extern "C" __global__ void __launch_bounds__(256) touch(uint4* memory, u64 count, u32 rewrite) {
  take_turn();
  for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x) {
    uint4 words = memory[i];
    keep(words.x);
    keep(words.y);
    keep(words.z);
    keep(words.w);
    if (rewrite) memory[i] = words;
  }
}
