// Which instruction sets the CPU kernels are compiled for. Include before any Highway header.
//
// AVX2 and AVX-512 (Highway's AVX3), plus the portable baseline that runs anywhere. The 128-bit SSE targets are left
// out: every x86 machine since 2013 has AVX2, and each target costs a compilation of every kernel. A file with int8
// kernels defines HWY_WANT_AVX3_DL before including this header and gets AVX-512 VNNI too; for f32 it would be a copy
// of AVX3.
#pragma once

#include <hwy/detect_compiler_arch.h>

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
