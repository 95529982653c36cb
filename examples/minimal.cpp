// minimal MODEL.onnx|MODEL.engine: builds or loads an engine and runs it on zeros.
#include <camshaft/camshaft.hpp>
#include <cstdio>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: minimal MODEL.onnx|MODEL.engine\n");
    return 2;
  }
  try {
    const std::string path = argv[1];
    const bool is_model = path.size() > 5 && path.substr(path.size() - 5) == ".onnx";
    const camshaft::Engine engine = is_model ? camshaft::Builder().build(path) : camshaft::Engine::load(path);

    camshaft::Context context = engine.create_context(camshaft::ContextOptions().set("threads", 1));
    std::vector<camshaft::Tensor> zeros;
    for (const camshaft::TensorInfo& input : engine.inputs()) {
      camshaft::Dims dims = input.dims;
      for (int64_t& d : dims) d = d < 0 ? 1 : d;  // dynamic sizes may be anything: here, 1
      zeros.emplace_back(input.dtype, dims);
      context.set_input(input.name, zeros.back());
    }
    context.run();
    for (const camshaft::TensorInfo& output : engine.outputs()) {
      std::printf("%s: %s [", output.name.c_str(), std::string(to_string(output.dtype)).c_str());
      for (const int64_t d : context.output(output.name).dims()) std::printf(" %lld", static_cast<long long>(d));
      std::printf(" ]\n");
    }
    if (is_model) engine.save(path.substr(0, path.size() - 5) + ".engine");
  } catch (const camshaft::Error& e) {
    std::fprintf(stderr, "minimal: %s\n", e.what());
    return 1;
  }
}
