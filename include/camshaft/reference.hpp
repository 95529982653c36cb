// What is right by the plain evaluation of a model, and the part of a model that is not.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "camshaft/camshaft.h"
#include "camshaft/options.hpp"
#include "camshaft/report.hpp"
#include "camshaft/tensor.hpp"

namespace camshaft {
inline namespace v1 {

/// The outputs of a model by the plain evaluation that builds are judged by. `noise` moves every operator's result by a
/// random part of itself up to that size: how far it moves outputs is how far rounding may. `threads`: 0 for one for
/// each core.
inline NamedTensors evaluate(const std::string& model_path, const NamedTensors& inputs, int threads = 1,
                             double noise = 0, uint64_t noise_seed = 0) {
  camshaft_tensors* outputs = nullptr;
  detail::check(camshaft_evaluate_file(model_path.c_str(), detail::tensors_of(inputs).get(), threads, noise, noise_seed,
                                       &outputs));
  return detail::named_tensors({outputs, camshaft_tensors_free});
}

/// How far a tensor is from another one. Floats pass when the relative error is at most `tolerance`; all else must be
/// equal.
inline OutputError compare(const std::string& name, const Tensor& expected, const Tensor& actual, double tolerance) {
  return detail::output_error(detail::record_of([&](camshaft_record** error) {
    return camshaft_compare(name.c_str(), expected.handle(), actual.handle(), tolerance, error);
  }));
}

/// A part of a model.
struct ReducedModel {
  std::vector<std::byte> model;  ///< of an ONNX file
  NamedTensors inputs;
  int64_t nodes = 0, nodes_before = 0;
};

/// The smallest part of a model that `is_wrong` says goes wrong, on the inputs that a build with these options is
/// verified on. Throws Error(invalid_argument) when the whole model does not, Error(cancelled), and what `is_wrong`
/// throws.
inline ReducedModel reduce(
    const std::string& model_path, const BuildOptions& options,
    const std::function<bool(std::span<const std::byte> model, const NamedTensors& inputs)>& is_wrong) {
  struct Judge {
    decltype(is_wrong) call;
    std::exception_ptr thrown;
  } judge{is_wrong, nullptr};
  void* model = nullptr;
  size_t bytes = 0;
  camshaft_tensors* inputs = nullptr;
  camshaft_record* counts = nullptr;
  const camshaft_status status = camshaft_reduce_file(
      model_path.c_str(), options.handle(),
      [](void* user, const void* part, size_t size, const camshaft_tensors* given) -> int32_t {
        auto& own = *static_cast<Judge*>(user);
        try {
          NamedTensors borrowed;
          for (size_t i = 0; i < camshaft_tensors_count(given); ++i)
            borrowed.emplace_back(camshaft_tensors_name(given, i), Tensor::borrowed(camshaft_tensors_get(given, i)));
          return own.call({static_cast<const std::byte*>(part), size}, borrowed) ? 1 : 0;
        } catch (...) {
          own.thrown = std::current_exception();
          return -1;
        }
      },
      &judge, &model, &bytes, &inputs, &counts);
  if (judge.thrown) std::rethrow_exception(judge.thrown);
  if (status == CAMSHAFT_CANCELLED) options.rethrow();
  detail::check(status);
  const std::unique_ptr<void, void (*)(void*)> held(model, camshaft_free);
  const Record record(counts);
  const auto* begin = static_cast<const std::byte*>(model);
  return {{begin, begin + bytes},
          detail::named_tensors({inputs, camshaft_tensors_free}),
          record["nodes"].integer(),
          record["nodes_before"].integer()};
}

}  // namespace v1
}  // namespace camshaft
