// Which instruction sets the CPU kernels are compiled for. Include before any Highway header, in every kernel file:
// the inline dispatch code of Highway depends on this set, so all translation units must agree on it.
//
// On x86: AVX-512, AVX2 and the baseline (SSE2). The steps between (SSSE3, SSE4) are left out: every machine in
// service that lacks AVX2 is rare enough for the baseline, and each further target adds its share of compile time.
#pragma once

#include "hwy/detect_targets.h"

#undef HWY_DISABLED_TARGETS
#if defined(__x86_64__)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#else
#define HWY_DISABLED_TARGETS 0
#endif
