// The types of elements that kernels are compiled for one by one: EACH(name, T).
#pragma once

#include <cstdint>

// Those of 32 and 64 bits.
#define CAMSHAFT_WIDE_TYPES(EACH) \
  EACH(f32, float)                \
  EACH(f64, double)               \
  EACH(i64, int64_t)              \
  EACH(i32, int32_t)              \
  EACH(u64, uint64_t)             \
  EACH(u32, uint32_t)

#define CAMSHAFT_ELEMENT_TYPES(EACH) \
  CAMSHAFT_WIDE_TYPES(EACH)          \
  EACH(i16, int16_t)                 \
  EACH(i8, int8_t)                   \
  EACH(u16, uint16_t)                \
  EACH(u8, uint8_t)
