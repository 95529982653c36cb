// libFuzzer target: any bytes as an engine file, loaded, inspected and run once.
#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/mapped_file.h"
#include "engine/engine_file.h"
#include "fuzz/engine_mutator.h"
#include "fuzz/limits.h"
#include "runtime/engine_impl.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

using namespace camshaft;

namespace {

std::shared_ptr<const MappedFile> in_memory(const uint8_t* data, size_t size) {
  return MappedFile::from_bytes(std::as_bytes(std::span(data, size)), "fuzzed.engine");
}

// The engine with some of its parts changed; empty when the bytes do not load.
std::vector<std::byte> rewritten(const uint8_t* data, size_t size, unsigned seed) {
  try {
    EngineFile engine = read_engine_file(in_memory(data, size));
    // What is stored in packed form alone stays so.
    for (const Value& value : engine.graph.values)
      engine.keep.push_back(value.constant && value.constant->is_elided() ? Keep::packed_only : Keep::bytes);
    EngineMutator mutator(engine, seed);
    for (unsigned changes = 1 + seed / 16 % 3; changes > 0; --changes) mutator.mutate();
    return engine_file_bytes(engine);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  fuzz::set_limits();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const Engine engine = load_engine(in_memory(data, size));
    fuzz::use(engine, 1);
  } catch (const std::exception& e) {
    fuzz::judge(e);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::vector<std::byte> changed;
  if (seed % 16 < 9) changed = rewritten(data, size, seed);
  if (changed.empty() && seed % 16 < 15) changed = reseal(std::as_bytes(std::span(data, size)), seed, LLVMFuzzerMutate);
  if (changed.empty()) return LLVMFuzzerMutate(data, size, max_size);  // the container itself
  if (changed.size() > max_size) return size;
  std::copy(changed.begin(), changed.end(), reinterpret_cast<std::byte*>(data));
  return changed.size();
}
