// libFuzzer target: any bytes as an ONNX model, through reader, importer, optimiser and lowering to one small run.
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "builder/compile_graph.h"
#include "fuzz/limits.h"
#include "fuzz/model_mutator.h"
#include "onnx/importer.h"
#include "onnx/proto_reader.h"
#include "onnx/proto_writer.h"
#include "optimize/pipeline.h"
#include "runtime/backends.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace camshaft::fuzz {
namespace {

void try_model(std::span<const std::byte> bytes) {
  onnx::ImportedModel imported = onnx::import_model(onnx::read_model(bytes, "model.onnx"));
  static ThreadPool pool(1);
  static const auto backend = find_backend("cpu");
  PassContext context{.pool = pool};
  context.verify = true;
  context.cancellation = cancelled_after(2);
  const BackendPasses passes = backend->passes(DType::f32, ops::Rounding::none);
  run_passes(imported.graph, passes.meaning, context);
  run_passes_with_branches(imported.graph, passes.form, context);
  CompileOptions options;
  options.cancellation = context.cancellation;
  use(compile_graph(std::move(imported.graph), backend, options), 1);
}

std::optional<onnx::ModelProto> decode(const uint8_t* data, size_t size) {
  try {
    return onnx::read_model(std::as_bytes(std::span(data, size)), "model.onnx");
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The number of bytes written to `data`; nothing when they do not fit.
std::optional<size_t> encode(const onnx::ModelProto& model, uint8_t* data, size_t max_size) {
  const std::string bytes = onnx::model_bytes(model);
  if (bytes.size() > max_size) return std::nullopt;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

}  // namespace
}  // namespace camshaft::fuzz

using namespace camshaft;

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  fuzz::set_limits();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    fuzz::try_model(std::as_bytes(std::span(data, size)));
  } catch (const std::exception& e) {
    fuzz::judge(e);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  if (seed % 16 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string original(reinterpret_cast<const char*>(data), size);  // the model points into it
  auto model = fuzz::decode(reinterpret_cast<const uint8_t*>(original.data()), size);
  if (!model) return LLVMFuzzerMutate(data, size, max_size);
  onnx::ModelMutator mutator(*model, seed);
  for (unsigned changes = 1 + seed / 16 % 4; changes > 0; --changes) mutator.mutate();
  return fuzz::encode(*model, data, max_size).value_or(size);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data1, size_t size1, const uint8_t* data2, size_t size2,
                                            uint8_t* out, size_t max_size, unsigned seed) {
  auto first = fuzz::decode(data1, size1);
  const auto second = fuzz::decode(data2, size2);
  if (!first || !second) return 0;
  onnx::ModelMutator mutator(*first, seed);
  mutator.join(*second);
  return fuzz::encode(*first, out, max_size).value_or(0);
}
