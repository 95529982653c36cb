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

SampleOptions sample_options(const BuildOptions& options) {
  SampleOptions sample;
  sample.seed = options.seed;
  for (const auto& [name, view] : options.verification_inputs) sample.inputs[name] = copy_of(view);
  if (const std::string name(lora_input); !options.lora.empty() && !sample.inputs.contains(name))
    sample.settled.emplace(name, Tensor::of<int64_t>(DType::i64, {}, {1}));  // with none the updates are zeros
  sample.cancellation = options.cancellation;
  return sample;
}

}  // namespace camshaft
