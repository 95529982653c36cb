// What sums of exponentials with a running maximum start from.

__device__ __forceinline__ f32 infinity() { return __uint_as_float(0x7f800000u); }
/// What distances are taken from: any number where there is no finite score yet, whose exponentials are 0 then.
__device__ __forceinline__ f32 reference_of(f32 largest) { return largest == -infinity() ? 0.0f : largest; }
