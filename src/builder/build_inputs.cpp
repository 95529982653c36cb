#include "builder/build_inputs.h"

#include "runtime/adapters.h"
#include "runtime/tensor_view.h"

namespace camshaft {

onnx::ImportOptions import_options(const std::vector<Profile>& profiles) {
  onnx::ImportOptions import;
  for (const Profile& profile : profiles)
    for (const auto bound : {&ShapeRange::min, &ShapeRange::opt, &ShapeRange::max})
      for (auto& shapes = import.shapes.emplace_back(); const auto& [name, range] : profile.inputs)
        shapes[name] = range.*bound;
  return import;
}

std::map<std::string, Tensor> copies_of(const std::map<std::string, TensorView>& inputs) {
  std::map<std::string, Tensor> copies;
  for (const auto& [name, view] : inputs) copies[name] = copy_of(view);
  return copies;
}

SampleOptions sample_options(const BuildOptions& options) {
  SampleOptions sample;
  sample.seed = options.seed;
  sample.inputs = copies_of(options.verification_inputs);
  if (const std::string name(lora_input); !options.lora.empty() && !sample.inputs.contains(name))
    sample.settled.emplace(name, Tensor::of<int64_t>(DType::i64, {}, {1}));  // with none the updates are zeros
  sample.cancellation = options.cancellation;
  return sample;
}

}  // namespace camshaft
