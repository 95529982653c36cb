// Which instruction sets the CPU kernels are compiled for. Include before any Highway header. On x86 AVX2 and AVX-512
// (Highway's AVX3), plus the portable baseline that runs anywhere; the 128-bit SSE targets are left out: every x86
// machine since 2013 has AVX2, and each target costs a compilation of every kernel. On ARM NEON, which every 64-bit
// machine has, and not SVE: tiles are arrays of vectors, and C++ has no arrays of vectors whose length is known at run
// time only. What kernels and tactics know about each target is in tile_traits.h.

#pragma once

#include <hwy/detect_compiler_arch.h>

// Highway numbers the better targets of an architecture lower: below AVX3 are those of AVX-512 that came later, which a
// build for one processor (-march=native) would take. What kernels use beyond AVX3 they ask for by themselves.
#define HWY_DISABLED_TARGETS ((HWY_AVX3 - 1) | HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
