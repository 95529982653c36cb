// f32 to integers: truncated, saturated, and 0 for what is no number, as the reference has it.
#include <limits>

#include "backends/cpu/each_target.h"
#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/pointwise.h"
#include "reference/element_io.h"

namespace camshaft::cpu::convert_test {
namespace {

TEST(Convert, FloatsToIntegers) {
  RandomData random;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float special[] = {std::numeric_limits<float>::quiet_NaN(),
                           infinity,
                           -infinity,
                           -0.0F,
                           1e-40F,
                           -0.99F,
                           127.99F,
                           -128.99F,
                           255.99F,
                           256,
                           1e30F,
                           -1e30F,
                           2147483648.0F,
                           2147483520.0F,
                           -2147483648.0F,
                           32767.9F,
                           65535.9F,
                           2251799813685248.0F,
                           9223372036854775808.0F,
                           9223371487098961920.0F,
                           -9223372036854775808.0F,
                           18446744073709551616.0F,
                           18446742974197923840.0F};
  for_each_target([&] {
    for (const DType to :
         {DType::u8, DType::i8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64})
      for (const int64_t size : {1, 5, 16, 33, 100, 3000}) {
        Tensor x(DType::f32, {size});
        for (int64_t i = 0; i < size; ++i)
          x.as_mutable<float>()[i] = random.coin() ? (random.coin() ? 300.0F : 1e5F) * random.real()
                                                   : special[random.integer(0, std::ssize(special) - 1)];
        // Vectors of ordinary numbers among others.
        for (int64_t i = 0; i < size / 2; ++i) x.as_mutable<float>()[i] = 300.0F * random.real();
        const NodeTest test(ops::Cast{to}, {x}, {}, "pointwise");
        test.check(1);
        test.check(2);
      }
  });
}

// In one rounding: what lies next to the middle between two narrow numbers is that middle in f32.
TEST(Convert, ToNarrowFloatsInOneRounding) {
  RandomData random;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double special[] = {65519.99999999999,
                            -65519.99999999999,
                            65520,
                            65504,
                            65536,
                            1e300,
                            infinity,
                            -infinity,
                            std::numeric_limits<double>::quiet_NaN(),
                            0x1.FEFFFFFFFFFFFp127,
                            0x1.FFp127,
                            1 + 0x1.0000000001p-11,
                            1 + 0x1.0000000001p-8,
                            0x1.0000000001p-25,
                            0x1p-25,
                            0x1.0000000001p-134,
                            0x1p-134,
                            1e-310,
                            -0.0};
  const int64_t whole[] = {(1 << 30) + (1 << 22) + 1, -(1 << 30) - (1 << 22) - 1, 65519, 65520, 65521, -65520, 1 << 30};
  for_each_target([&] {
    for (const DType to : {DType::f16, DType::bf16})
      for (const int64_t size : {1, 5, 16, 33, 600}) {
        Tensor x(DType::f64, {size}), i32(DType::i32, {size}), i64(DType::i64, {size});
        for (int64_t i = 0; i < size; ++i) {
          x.as_mutable<double>()[i] =
              random.coin() ? 300.0 * random.real() : special[random.integer(0, std::ssize(special) - 1)];
          i64.as_mutable<int64_t>()[i] = whole[random.integer(0, std::ssize(whole) - 1)];
          i32.as_mutable<int32_t>()[i] = static_cast<int32_t>(i64.as<int64_t>()[i]);
        }
        for (const Tensor& from : {x, i32, i64}) NodeTest(ops::Cast{to}, {from}, {}, "pointwise").check(1);
      }
  });
}

TEST(Convert, DoublesToIntegers) {
  RandomData random;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double special[] = {std::numeric_limits<double>::quiet_NaN(),
                            infinity,
                            -infinity,
                            -0.0,
                            1e-310,
                            -0.99,
                            255.99,
                            -128.99,
                            2147483647.5,
                            -2147483649.0,
                            4294967296.0,
                            1e300,
                            -1e300,
                            32768.5,
                            65536.0,
                            2251799813685247.5,
                            2251799813685248.0,
                            -2251799813685249.0,
                            9223372036854775808.0,
                            -9223372036854775808.0,
                            9223372036854774784.0,
                            18446744073709551616.0,
                            18446744073709549568.0};
  for_each_target([&] {
    for (const DType to :
         {DType::u8, DType::i8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64})
      for (const int64_t size : {1, 5, 16, 33, 300, 3000}) {
        Tensor x(DType::f64, {size});
        for (int64_t i = 0; i < size; ++i)
          x.as_mutable<double>()[i] = random.coin() ? (random.coin() ? 300.0 : 1e10) * random.real()
                                                    : special[random.integer(0, std::ssize(special) - 1)];
        for (int64_t i = 0; i < size / 2; ++i) x.as_mutable<double>()[i] = 300.0 * random.real();
        NodeTest(ops::Cast{to}, {x}, {}, "pointwise").check(1);
      }
  });
}

// Of halves every bit pattern may come; of the others what a half can hold and what it cannot.
TEST(Convert, HalvesFromAndToAllTypes) {
  RandomData random;
  constexpr DType types[] = {DType::f32, DType::f64, DType::i64, DType::i32, DType::i16,    DType::i8,
                             DType::u64, DType::u32, DType::u16, DType::u8,  DType::boolean};
  for_each_target([&] {
    for (const DType type : types)
      for (const int64_t size : {1, 5, 16, 33, 511, 1500}) {
        SCOPED_TRACE(to_string(type));
        Tensor halves(DType::f16, {size});
        for (int64_t i = 0; i < size; ++i)
          halves.as_mutable<uint16_t>()[i] = static_cast<uint16_t>(random.integer(0, 0xffff));
        NodeTest(ops::Cast{type}, {halves}, {}, "pointwise").check(1);
        std::vector<int64_t> numbers;
        for (int64_t i = 0; i < size; ++i)
          numbers.push_back(static_cast<int64_t>((i % 2 ? 120.0F : 1e5F) * random.real()));
        Tensor x(type, {size});
        if (is_floating(type)) {
          const std::vector<double> halved(numbers.begin(), numbers.end());
          ops::store_elements(type, x.mutable_data(), 0, 1, size, halved.data());
        } else {
          ops::store_elements(type, x.mutable_data(), 0, 1, size, numbers.data());
        }
        NodeTest(ops::Cast{DType::f16}, {x}, {}, "pointwise").check(1);
      }
  });
}

// Ties to even, infinities beyond the largest, NaN of any bits, in every lane and behind the last vector.
TEST(Convert, FloatsToBf16) {
  RandomData random;
  for_each_target([&] {
    for (const int64_t size : {1, 5, 16, 33, 511, 3000}) {
      Tensor x(DType::f32, {size});
      for (int64_t i = 0; i < size; ++i) {
        auto bits = static_cast<uint32_t>(random.next());
        if (i % 3 == 0) bits = (bits & 0xffff0000U) | 0x8000U;
        if (i % 7 == 0) bits |= 0x7f800000U;
        x.as_mutable<uint32_t>()[i] = bits;
      }
      NodeTest(ops::Cast{DType::bf16}, {x}, {}, "pointwise").check(1);
    }
  });
}

// Beyond 2^53 rounded to even, in every lane and behind the last vector.
TEST(Convert, WideIntegersToDoubles) {
  RandomData random;
  for_each_target([&] {
    for (const int64_t size : {1, 3, 4, 9, 100, 1500}) {
      Tensor x(DType::i64, {size});
      for (int64_t i = 0; i < size; ++i) {
        const int64_t high = random.integer(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
        const int64_t bits = high * (int64_t{1} << 32) + random.integer(0, std::numeric_limits<int32_t>::max());
        x.as_mutable<int64_t>()[i] = bits >> random.integer(0, 63);
      }
      x.as_mutable<int64_t>()[0] = std::numeric_limits<int64_t>::min();
      x.as_mutable<int64_t>()[size - 1] = std::numeric_limits<int64_t>::max();
      NodeTest(ops::Cast{DType::f64}, {x}, {}, "pointwise").check(1);
    }
  });
}

// Whatever byte stands for true.
TEST(Convert, BooleansToFloats) {
  RandomData random;
  for_each_target([&] {
    for (const int64_t size : {1, 15, 16, 100, 3000}) {
      Tensor x(DType::boolean, {size});
      for (int64_t i = 0; i < size; ++i)
        x.mutable_data()[i] = static_cast<std::byte>(random.coin() ? 0 : random.integer(1, 255));
      NodeTest(ops::Cast{DType::f32}, {x}, {}, "pointwise").check(1);
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::convert_test
