#include "builder/build_inputs.h"

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
  sample.cancellation = options.cancellation;
  return sample;
}

}  // namespace camshaft
