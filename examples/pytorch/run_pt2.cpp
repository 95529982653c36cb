// run_pt2 MODEL.pt2 [DIMS...]: runs what camshaft.torch.save() wrote, on ones, without PyTorch. DIMS ("2x3x16x16") are
// the shapes of the inputs in their order, axes as they lie in memory; without them those that the engine was tuned
// for.
#include <camshaft/camshaft.hpp>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "pt2.h"

namespace {

camshaft::Dims parse_dims(const std::string& text) {
  camshaft::Dims dims;
  std::stringstream stream(text);
  for (std::string size; std::getline(stream, size, 'x');) dims.push_back(std::stoll(size));
  return dims;
}

camshaft::Dims tuned_for(const camshaft::Engine& engine, const camshaft::TensorInfo& input) {
  for (const camshaft::Profile& profile : engine.profiles())
    for (const auto& [name, range] : profile.inputs)
      if (name == input.name) return range.opt;
  return input.dims;
}

camshaft::Tensor ones(camshaft::DType dtype, const camshaft::Dims& dims) {
  camshaft::Tensor made(camshaft::DType::f32, dims);
  for (int64_t i = 0; i < made.size(); ++i) made.as_mutable<float>()[i] = 1;
  return made.converted(dtype);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: run_pt2 MODEL.pt2 [DIMS...]\n");
    return 2;
  }
  try {
    const Pt2Program program = load_pt2(argv[1]);
    camshaft::Context context = program.engine.create_context();
    std::vector<camshaft::Tensor> held;
    for (size_t i = 0; i < program.inputs.size(); ++i)
      for (const camshaft::TensorInfo& input : program.engine.inputs())
        if (input.name == program.inputs[i].name) {
          const bool given = static_cast<int>(i) + 2 < argc;
          held.push_back(ones(input.dtype, given ? parse_dims(argv[i + 2]) : tuned_for(program.engine, input)));
          context.set_input(input.name, held.back());
        }
    context.run();
    for (const Pt2Value& output : program.outputs) {
      const camshaft::Tensor result = context.output(output.name).converted(camshaft::DType::f32);
      std::printf("%s [", output.name.c_str());
      for (const int64_t size : result.dims()) std::printf(" %lld", static_cast<long long>(size));
      std::printf(" ]:");
      for (int64_t i = 0; i < result.size() && i < 8; ++i) std::printf(" %.7g", result.as<float>()[i]);
      std::printf("%s\n", result.size() > 8 ? " ..." : "");
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run_pt2: %s\n", error.what());
    return 1;
  }
}
