#include "backends/cpu/kernels/pointwise/byte_table.h"

#include <numeric>

#include "backends/cpu/kernels/pointwise/pointwise.h"
#include "base/pieces.h"

namespace camshaft::cpu {

namespace {

// Eight at a time: a lookup waits for its load, and the next ones need not.
template <class T>
void look_up(const T* table, int64_t count, const uint8_t* in, T* out) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    T found[8];
    for (int64_t k = 0; k < 8; ++k) found[k] = table[in[i + k]];
    for (int64_t k = 0; k < 8; ++k) out[i + k] = found[k];
  }
  for (; i < count; ++i) out[i] = table[in[i]];
}

}  // namespace

ByteTable::ByteTable(const ScalarProgram& program)
    : width_(bit_width(program.instructions[static_cast<size_t>(program.outputs.at(0))].dtype) / 8) {
  std::array<uint8_t, 256> all{};
  std::iota(all.begin(), all.end(), uint8_t{0});
  ThreadPool pool(1);
  const void* inputs[] = {all.data()};
  void* outputs[] = {width_ == 1 ? static_cast<void*>(bytes_.data()) : words_.data()};
  Pointwise(program, {256}, {{1}}).run(pool, inputs, outputs);
}

void ByteTable::run(ThreadPool& pool, int64_t count, const uint8_t* in, void* out) const {
  constexpr int64_t grain = 1 << 14;
  for_pieces(pool, count, grain, [&](int64_t begin, int64_t end) {
    if (width_ == 1) {
      look_up(bytes_.data(), end - begin, in + begin, static_cast<uint8_t*>(out) + begin);
    } else {
      look_up(words_.data(), end - begin, in + begin, static_cast<uint32_t*>(out) + begin);
    }
  });
}

}  // namespace camshaft::cpu
