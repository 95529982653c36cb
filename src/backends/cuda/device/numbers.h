// What host and device share, and the names of numbers that it is declared with.
//
// The headers of this folder are both C++ that the host includes and a part of the kernels' texts: what a kernel is
// given is declared once, and laid out by the compiler of each side. On the host they are headers like any other.
// Where they are made texts (cmake/embed_text.cmake) their #pragma once, #include and namespace lines are left out, and
// codegen/ puts them before the kernels that need them (codegen/device_text.h).
//
// They have data of fixed widths and constants, with initial values that are the host's. What only one side can do with
// them stands there: functions of kernels in the .cuh files of this folder, those that fill parameters in tactics/.
// Parameters whose arrays are as long as a kernel has operands are templates of that number; the host, which knows it
// when it runs, makes their bytes by the offsets of the compiler (tactics/axes.h, tactics/space.h).
#pragma once

namespace camshaft::cuda {

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

}  // namespace camshaft::cuda
