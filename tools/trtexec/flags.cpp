#include "tools/trtexec/flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "camshaft/error.hpp"

namespace camshaft::tools::trtexec {

namespace {

constexpr FlagState works = FlagState::works;
constexpr FlagState idle = FlagState::without_effect;
constexpr FlagState refused = FlagState::refused;

constexpr const char* other_formats = "models are ONNX: convert those of Caffe and UFF, and give --onnx";
constexpr const char* no_dla = "there is no DLA";
constexpr const char* plugin_library = "Load a library of plugins, compiled with camshaft/tensorrt/NvInfer.h";
constexpr const char* no_safety = "there are no safety engines";
constexpr const char* no_runtimes = "engines need no runtime beside this program";

constexpr Flag flags[] = {
    {"onnx", "<file>", works, "The ONNX model"},
    {"model", "<file>", refused, other_formats},
    {"deploy", "<file>", refused, other_formats},
    {"output", "<name>", refused, other_formats},
    {"uff", "<file>", refused, other_formats},
    {"uffInput", "spec", refused, other_formats},
    {"uffNHWC", nullptr, refused, other_formats},
    {"saveEngine", "<file>", works, "Write the engine"},
    {"loadEngine", "<file>", works, "Load an engine instead of building one"},
    {"minShapes", "spec", works, "The smallest shapes to accept, as x:1x3x224x224,y:1x10"},
    {"optShapes", "spec", works, "The shapes to tune for"},
    {"maxShapes", "spec", works, "The largest shapes to accept"},
    {"profile", "[N]", works, "The shapes that follow are of one more profile, the N-th"},
    {"explicitBatch", nullptr, idle, "batches are always explicit"},
    {"fp16", nullptr, works, "Allow fp16"},
    {"bf16", nullptr, works, "Allow bf16"},
    {"int8", nullptr, works, "Allow int8, with --calib; without, ranges are those of random inputs"},
    {"best", nullptr, works, "Allow all precisions that are faster"},
    {"noTF32", nullptr, works, "Compute fp32 in fp32 on GPUs, too"},
    {"fp8", nullptr, works, "Allow fp8 on GPUs that have it, with --calib or of a model that is quantised to it"},
    {"int4", nullptr, idle, "weights of four bits are taken as the model has them"},
    {"stronglyTyped", nullptr, works, "Allow no types but the model's own"},
    {"precisionConstraints", "none|obey|prefer", works, "What becomes of precisions of layers"},
    {"layerPrecisions", "spec", works, "Precisions of layers, as conv1:fp16,*:fp32"},
    {"layerOutputTypes", "spec", works, "Types of layers' results, likewise"},
    {"calib", "<file>", works, "The calibration cache for int8, TensorRT's or Camshaft's"},
    {"calibBatchSize", "N", idle, "the calibration is read from --calib"},
    {"calibProfile", "N", idle, "the calibration is read from --calib"},
    {"minShapesCalib", "spec", idle, "the calibration is read from --calib"},
    {"optShapesCalib", "spec", idle, "the calibration is read from --calib"},
    {"maxShapesCalib", "spec", idle, "the calibration is read from --calib"},
    {"workspace", "N", idle, "what a run needs is planned exactly"},
    {"memPoolSize", "poolspec", idle, "what a run needs is planned exactly"},
    {"builderOptimizationLevel", "N", works, "0 and 1: choose kernels by estimate; 2 to 5: by measuring"},
    {"timingCacheFile", "<file>", works, "Keep what was measured in this file"},
    {"avgTiming", "N", idle, "a kernel is measured until its time is sure"},
    {"minTiming", "N", idle, "a kernel is measured until its time is sure"},
    {"maxTactics", "N", idle, "all kernels that may win are measured"},
    {"noBuilderCache", nullptr, works, "Leave --timingCacheFile alone"},
    {"noCompilationCache", nullptr, idle, "kernels are cached for the user"},
    {"errorOnTimingCacheMiss", nullptr, refused, "'camshaft build --lock FILE' fails where nothing is known"},
    {"heuristic", nullptr, works, "Choose kernels by estimate"},
    {"profilingVerbosity", "mode", idle, "engines always know their layers"},
    {"nvtxMode", "mode", idle, "engines always know their layers"},
    {"inputIOFormats", "spec", works,
     "Types of inputs, row-major: those of the model stay, and a warning says where others are asked for"},
    {"outputIOFormats", "spec", works, "Likewise of outputs"},
    {"directIO", nullptr, idle, "inputs and outputs are not rearranged"},
    {"sparsity", "disable|enable|force", works, "disable and enable are possible: there are no sparse kernels"},
    {"refit", nullptr, works, "Make an engine whose weights can be replaced"},
    {"stripWeights", nullptr, works, "The same, and write it without weights: a refit must bring them"},
    {"stripAllWeights", nullptr, works, "The same"},
    {"weightless", nullptr, works, "The same"},
    {"refitFromOnnx", "<file>", works, "Replace the weights by those of a model, before inference"},
    {"allowWeightStreaming", nullptr, idle, "every engine's weights can be streamed"},
    {"weightStreamingBudget", "N", works,
     "Keep so much of the weights in memory: bytes, with B, K, M or G, or 40%; -1: what is free, -2: all"},
    {"versionCompatible", nullptr, idle, "engines say themselves which versions load them"},
    {"vc", nullptr, idle, "engines say themselves which versions load them"},
    {"excludeLeanRuntime", nullptr, idle, no_runtimes},
    {"useRuntime", "full|lean|dispatch", idle, no_runtimes},
    {"leanDLLPath", "<file>", idle, no_runtimes},
    {"hardwareCompatibilityLevel", "mode", idle, "an engine loads on any device of its kind"},
    {"runtimePlatform", "platform", idle, "engines run on Linux"},
    {"pluginInstanceNorm", nullptr, idle, "norms are recognised"},
    {"pi", nullptr, idle, "norms are recognised"},
    {"enablePluginOverride", nullptr, idle, "plugins take the place of no operator of ONNX"},
    {"uint8AsymmetricQuantizationDLA", nullptr, idle, no_dla},
    {"reportCapabilityDLA", nullptr, refused, no_dla},
    {"adjustForDLA", nullptr, refused, no_dla},
    {"useDLACore", "N", refused, no_dla},
    {"allowGPUFallback", nullptr, idle, no_dla},
    {"layerDeviceTypes", "spec", idle, no_dla},
    {"buildDLAStandalone", nullptr, refused, no_dla},
    {"safe", nullptr, refused, no_safety},
    {"consistency", nullptr, refused, no_safety},
    {"restricted", nullptr, refused, no_safety},
    {"dumpKernelText", nullptr, refused, no_safety},
    {"remoteAutoTuningConfig", "text", refused, no_safety},
    {"cpuOnly", nullptr, works, "Build for the CPU, also where there is a GPU"},
    {"decomposableAttentions", "spec", idle, "attention is fused where that is faster"},
    {"tacticSources", "sources", idle, "'camshaft inspect --explain' says which kernels were tried"},
    {"preview", "spec", idle, "there are no preview features"},
    {"maxAuxStreams", "N", idle, "layers run one after the other"},
    {"tempdir", "<dir>", idle, "nothing is written but what is asked for"},
    {"tempfileControls", "spec", idle, "nothing is written but what is asked for"},
    {"tilingOptimizationLevel", "N", idle, "tiles are part of what is tuned"},
    {"l2LimitForTiling", "N", idle, "tiles are part of what is tuned"},
    {"monitorMemory", nullptr, idle, "'camshaft build' says what a build takes"},
    {"markDebug", "names", works, "Keep these tensors through fusion, as c,r"},
    {"markUnfusedTensorsAsDebugTensors", nullptr, refused,
     "only a build tells which these are: --markDebug names tensors"},
    {"saveDebugTensors", "spec", works,
     "Write marked tensors of the last query as files of raw elements, as c:c.bin,r:r.bin"},
    {"saveAllDebugTensors", "formats", works, "Print or write all marked ones: summary,numpy,string,raw"},
    {"skipInference", nullptr, works, "Only build, or only load"},
    {"buildOnly", nullptr, works, "The same"},
    {"getPlanVersionOnly", nullptr, works, "Print which version made the engine of --loadEngine"},
    {"asyncFileReader", nullptr, idle, "engines are mapped"},
    {"device", "N", works, "The GPU by its number"},
    {"plugins", "<file>", works, plugin_library},
    {"staticPlugins", "<file>", works, plugin_library},
    {"dynamicPlugins", "<file>", works, plugin_library},
    {"setPluginsToSerialize", "<file>", refused, "engines hold no libraries: load them with --plugins"},
    {"safetyPlugins", "<file>", refused, no_safety},
    {"ignoreParsedPluginLibs", nullptr, idle, "models name no libraries"},
    {"shapes", "spec", works, "The shapes to run with; without --minShapes also those to build for"},
    {"batch", "N", works, "1 is possible: batches are explicit, and --shapes says how large they are"},
    {"maxBatch", "N", works, "1 is possible: --maxShapes says it"},
    {"loadInputs", "spec", works, "Inputs from files of raw elements, as x:x.bin,y:y.bin"},
    {"iterations", "N", works, "Measure so many queries at least (10)"},
    {"warmUp", "N", works, "Milliseconds to run before, unmeasured (200)"},
    {"duration", "N", works, "Seconds to measure at least (3); -1: until it is stopped"},
    {"sleepTime", "N", works, "Milliseconds to wait before each query"},
    {"idleTime", "N", works, "Milliseconds to wait after each query"},
    {"infStreams", "N", works, "So many queries at the same time, each with a context of its own"},
    {"streams", "N", works, "The same"},
    {"threads", nullptr, idle, "each stream has a thread"},
    {"exposeDMA", nullptr, idle, "copies are part of a query's time"},
    {"includeDataTransfers", nullptr, idle, "inputs and outputs of the host are part of a query"},
    {"noDataTransfers", nullptr, works, "On a GPU: inputs and outputs stay there"},
    {"useManagedMemory", nullptr, idle, "on the CPU all memory is the host's"},
    {"useSpinWait", nullptr, idle, "waiting is tuned"},
    {"noSpinWait", nullptr, idle, "waiting is tuned"},
    {"useCudaGraph", nullptr, idle, "runs on a GPU are recorded"},
    {"noCudaGraph", nullptr, idle, "runs on a GPU are recorded"},
    {"timeDeserialize", nullptr, works, "Time loading the engine, and end"},
    {"timeRefit", nullptr, works, "Time replacing the weights by those of --refitFromOnnx or --onnx"},
    {"separateProfileRun", nullptr, works, "Measure layers in a run of their own; it is always so"},
    {"persistentCacheRatio", "ratio", idle, "caches are the device's"},
    {"useProfile", "N", idle, "the profile is that of the shapes"},
    {"allocationStrategy", "mode", idle, "what a run needs is planned exactly"},
    {"verbose", nullptr, works, "Print what the library does"},
    {"avgRuns", "N", works, "Print the mean of every N queries (10)"},
    {"percentile", "P1,P2,...", works, "Percentiles of the summary (90,95,99)"},
    {"dumpRefit", nullptr, works, "Print the weights that can be replaced, and the layers that read them"},
    {"dumpOutput", nullptr, works, "Print the outputs of the last query"},
    {"dumpRawBindingsToFile", nullptr, works, "Write inputs and outputs as files of raw elements"},
    {"dumpProfile", nullptr, works, "Print the times of layers"},
    {"dumpLayerInfo", nullptr, works, "Print the layers"},
    {"dumpOptimizationProfile", nullptr, works, "Print the profiles"},
    {"exportTimes", "<file>", works, "Write the times of queries as JSON"},
    {"exportOutput", "<file>", works, "Write the outputs of the last query as JSON"},
    {"exportProfile", "<file>", works, "Write the times of layers as JSON"},
    {"exportLayerInfo", "<file>", works, "Write the layers as JSON"},
    {"help", nullptr, works, "Print this help and exit"},
    {"h", nullptr, works, "The same"},
};

const Flag* find(std::string_view name) {
  const auto* found = std::ranges::find_if(flags, [&](const Flag& flag) { return name == flag.name; });
  return found == std::end(flags) ? nullptr : found;
}

}  // namespace

std::span<const Flag> all_flags() {
  return flags;
}

GivenFlags parse_flags(std::span<const std::string> arguments) {
  GivenFlags given;
  for (const std::string& argument : arguments) {
    const size_t begin = argument.find_first_not_of('-'), equals = argument.find('=');
    const std::string name = argument.substr(std::min(begin, argument.size()), equals - std::min(begin, equals));
    const Flag* flag = begin == 0 ? nullptr : find(name);
    if (flag == nullptr) throw Error(ErrorCode::invalid_argument, fmt::format("Unknown option: {}", argument));
    const bool has_value = equals != std::string::npos;
    const bool may_have_value = flag->value != nullptr && flag->value[0] == '[';
    if (has_value && flag->value == nullptr)
      throw Error(ErrorCode::invalid_argument, fmt::format("--{} takes no value, and was given {}", name, argument));
    if (!has_value && flag->value != nullptr && !may_have_value)
      throw Error(ErrorCode::invalid_argument, fmt::format("--{} needs a value: --{}={}", name, name, flag->value));
    if (flag->state == FlagState::refused)
      throw Error(ErrorCode::unsupported, fmt::format("--{} cannot be had: {}", name, flag->text));
    given[name].push_back(has_value ? argument.substr(equals + 1) : "");
  }
  return given;
}

}  // namespace camshaft::tools::trtexec
