/* The interface of plugins: operators of your own, in a shared library. plugin.hpp is the same for C++, with less to
 * write; docs/plugins.md shows both.
 *
 * A plugin needs no library to link with: it exports camshaft_plugin_entry(), and gets functions with every call. All
 * structs begin with their size as the side that filled them in was compiled; neither side reads beyond it, and what is
 * not there counts as zero. So a plugin that was built with this header loads in every later version that has the same
 * CAMSHAFT_PLUGIN_ABI, and one built with a later header loads here.
 *
 * Functions of a plugin return 0, or something else for a failure, which they explain with `fail` before: the call that
 * needed them fails with that message and the operator's name. They may be called from several threads at the same
 * time, with the same instance, too, and must not throw. Pointers that are given are valid during the call alone. */
#ifndef CAMSHAFT_CAMSHAFT_PLUGIN_H
#define CAMSHAFT_CAMSHAFT_PLUGIN_H

#include "camshaft/camshaft.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a plugin of before could no longer be called. */
#define CAMSHAFT_PLUGIN_ABI 1

/* ---- What a plugin sees of a node ---- */

typedef struct camshaft_plugin_tensor {
  camshaft_dtype dtype;
  size_t rank;
  const int64_t* dims;
  void* data; /* row-major and dense; null while only sizes are asked. Elements below a byte are packed */
  size_t bytes;
} camshaft_plugin_tensor;

enum {
  CAMSHAFT_PLUGIN_NONE = 0,
  CAMSHAFT_PLUGIN_INTEGERS = 1, /* of an int or ints */
  CAMSHAFT_PLUGIN_NUMBERS = 2,  /* of a float or floats */
  CAMSHAFT_PLUGIN_TEXTS = 3,    /* of a string or strings */
  CAMSHAFT_PLUGIN_TENSOR = 4
};

/* An ONNX node of the operator, and what its plugin stored in the engine. */
typedef struct camshaft_plugin_node camshaft_plugin_node;
struct camshaft_plugin_node {
  size_t size;
  size_t attribute_count;
  /* Keeps the message, and returns 1. */
  int32_t (*fail)(const camshaft_plugin_node* node, const char* message);
  const char* (*attribute_name)(const camshaft_plugin_node* node, size_t index);
  /* CAMSHAFT_PLUGIN_NONE when the node has no such attribute. */
  int32_t (*attribute_kind)(const camshaft_plugin_node* node, const char* name);
  /* How many elements the attribute has, 0 when the node does not have it; one of another kind makes the call fail. A
   * single value is a list of one. The pointers are valid as long as the call. */
  size_t (*integers)(const camshaft_plugin_node* node, const char* name, const int64_t** values);
  size_t (*numbers)(const camshaft_plugin_node* node, const char* name, const double** values);
  size_t (*texts)(const camshaft_plugin_node* node, const char* name, size_t index, const char** text, size_t* length);
  const camshaft_plugin_tensor* (*tensor)(const camshaft_plugin_node* node, const char* name);
  /* What `state` of the instance gave when the engine was built; null when the node comes from a model. */
  const void* state;
  size_t state_bytes;
};

/* ---- Shapes: expressions of the sizes that a model leaves open ---- */

typedef struct camshaft_plugin_dim_t camshaft_plugin_dim;
enum {
  CAMSHAFT_PLUGIN_ADD = 0,
  CAMSHAFT_PLUGIN_SUBTRACT = 1,
  CAMSHAFT_PLUGIN_MULTIPLY = 2,
  CAMSHAFT_PLUGIN_FLOOR_DIVIDE = 3,
  CAMSHAFT_PLUGIN_CEIL_DIVIDE = 4,
  CAMSHAFT_PLUGIN_MODULO = 5,
  CAMSHAFT_PLUGIN_MIN = 6,
  CAMSHAFT_PLUGIN_MAX = 7,
  CAMSHAFT_PLUGIN_BROADCAST = 8 /* the other one where one is 1 */
};

/* What a shape rule sees and gives. Functions that give a dim give null for arguments that make none; the rule then
 * fails by itself. */
typedef struct camshaft_plugin_shapes camshaft_plugin_shapes;
struct camshaft_plugin_shapes {
  size_t size;
  size_t input_count, output_count;
  int32_t (*fail)(camshaft_plugin_shapes* shapes, const char* message);
  /* -1 for an operand that is left out, or beyond the end. */
  camshaft_dtype (*dtype)(camshaft_plugin_shapes* shapes, size_t input);
  size_t (*rank)(camshaft_plugin_shapes* shapes, size_t input);
  const camshaft_plugin_dim* (*dim)(camshaft_plugin_shapes* shapes, size_t input, size_t axis);
  /* The elements of a small operand of integers, where they are known before running: how many, or 0. */
  size_t (*values)(camshaft_plugin_shapes* shapes, size_t input, const int64_t** values);
  const camshaft_plugin_dim* (*constant)(camshaft_plugin_shapes* shapes, int64_t value);
  /* A size that only running tells: see resize_output below. */
  const camshaft_plugin_dim* (*symbol)(camshaft_plugin_shapes* shapes, size_t output, size_t axis);
  const camshaft_plugin_dim* (*combine)(camshaft_plugin_shapes* shapes, int32_t operation, const camshaft_plugin_dim* a,
                                        const camshaft_plugin_dim* b);
  /* 1 and the value if the dim is a number, else 0. */
  int32_t (*value)(camshaft_plugin_shapes* shapes, const camshaft_plugin_dim* dim, int64_t* value);
  /* "2*batch + 1"; `parse` is the inverse. */
  const char* (*text)(camshaft_plugin_shapes* shapes, const camshaft_plugin_dim* dim);
  const camshaft_plugin_dim* (*parse)(camshaft_plugin_shapes* shapes, const char* text);
  /* To be called once for each output. */
  int32_t (*set_output)(camshaft_plugin_shapes* shapes, size_t output, camshaft_dtype dtype, size_t rank,
                        const camshaft_plugin_dim* const* dims);
};

/* ---- Running ---- */

typedef struct camshaft_plugin_run camshaft_plugin_run;

/* An NVIDIA GPU, for enqueue_cuda. */
typedef struct camshaft_plugin_cuda {
  size_t size;
  void* stream;       /* a CUstream of the context that is current; null while only sizes are asked */
  int32_t capability; /* 90 for 9.0 */
  int32_t multiprocessors;
  /* Puts a kernel of the operator's cuda_text or cuda_module into the stream, by its name. `arguments` are addresses of
   * its parameters' values. Gives 0, or 1 for a failure, of which the run fails by itself. */
  int32_t (*launch)(const camshaft_plugin_run* run, const char* kernel, const uint32_t blocks[3],
                    const uint32_t threads[3], uint32_t shared_bytes, void* const* arguments);
} camshaft_plugin_cuda;

typedef void (*camshaft_plugin_body)(void* user, int64_t begin, int64_t end);
struct camshaft_plugin_run {
  size_t size;
  const camshaft_plugin_tensor* const* inputs; /* null for operands that are left out */
  size_t input_count;
  const camshaft_plugin_tensor* const* outputs; /* one whose size only running tells has no data yet */
  size_t output_count;
  void* workspace; /* as many bytes as `workspace` asked for, aligned to 64 */
  size_t tactic;   /* below tactic_count, or what count_tactics gave */
  int32_t threads; /* that parallel_for has */
  int32_t (*fail)(const camshaft_plugin_run* run, const char* message);
  /* 1 once the caller wants the run to end: what takes long asks now and then, and returns a failure. */
  int32_t (*is_cancelled)(const camshaft_plugin_run* run);
  /* Calls body(user, begin, end) for parts of [0, count), at multiples of `grain`, on the threads of the run; returns
   * when all are done. Only from the thread that `enqueue` was called on, and not from a body. */
  void (*parallel_for)(const camshaft_plugin_run* run, int64_t count, int64_t grain, camshaft_plugin_body body,
                       void* user);
  /* Memory for an output whose shape rule named a symbol; null for a shape that does not fit the rule. */
  void* (*resize_output)(const camshaft_plugin_run* run, size_t output, size_t rank, const int64_t* dims);
  /* Null: it runs on the host. Else operands and workspace are in the GPU's memory, and parallel_for is of no use. */
  const camshaft_plugin_cuda* cuda;
};

/* ---- Kernels that engines keep ---- */

enum {
  CAMSHAFT_PLUGIN_INPUT = 0,  /* the address of operand `index` */
  CAMSHAFT_PLUGIN_OUTPUT = 1, /* the address of result `index` */
  CAMSHAFT_PLUGIN_SIZE = 2,   /* `dim`, as a signed integer of `bytes` bytes: 1, 2, 4 or 8 */
  CAMSHAFT_PLUGIN_BYTES = 3   /* the `bytes` bytes at `data` */
};
/* What a kernel gets for one of its parameters. */
typedef struct camshaft_plugin_argument {
  int32_t kind;
  size_t index;
  const camshaft_plugin_dim* dim;
  const void* data;
  size_t bytes;
} camshaft_plugin_argument;

/* What `compile` of an operator fills in. Its functions give 0, or 1 for a failure, by which `compile` fails. */
typedef struct camshaft_plugin_kernels camshaft_plugin_kernels;
struct camshaft_plugin_kernels {
  size_t size;
  /* The operands' types and sizes, of which the dims below are made: numbers where the model has numbers. set_output is
   * not to be called. */
  camshaft_plugin_shapes* shapes;
  int32_t (*fail)(camshaft_plugin_kernels* kernels, const char* message);
  /* Begins one more way to compute the node, which the build measures: with kernels as CUDA C++, or compiled (a cubin,
   * a fat binary or PTX), the other one null. */
  int32_t (*add_tactic)(camshaft_plugin_kernels* kernels, const char* text, const void* module, size_t module_bytes);
  /* Adds a launch to it; they run one after the other, and one of no blocks not at all. */
  int32_t (*add_launch)(camshaft_plugin_kernels* kernels, const char* kernel,
                        const camshaft_plugin_dim* const blocks[3], const camshaft_plugin_dim* const threads[3],
                        const camshaft_plugin_dim* shared_bytes, size_t argument_count,
                        const camshaft_plugin_argument* arguments);
  /* The output begins as a copy of the input, of the same type and sizes, and stands for it among the arguments. */
  int32_t (*alias)(camshaft_plugin_kernels* kernels, size_t output, size_t input);
  /* Set it to 0 where neither enqueue nor enqueue_cuda can compute this node: its kernels by themselves count as right.
   */
  int32_t has_own_body;
};

/* ---- An operator ---- */

/* Orders of axes. */
enum {
  CAMSHAFT_PLUGIN_CHANNELS_FIRST = 0, /* axes as in the model */
  CAMSHAFT_PLUGIN_CHANNELS_LAST = 1   /* axis 1 behind the others: [n, h, w, c] */
};

/* Functions that may be null say what happens then. `instance` is what `create` gave, or `user` without a `create`. */
typedef struct camshaft_plugin_operator {
  size_t size; /* sizeof(camshaft_plugin_operator) */
  /* How ONNX nodes name it, and what engines record. */
  const char* domain;
  const char* name;
  const char* version;
  void* user;
  /* Of a node: reads attributes and the state. Null: none are needed. */
  int32_t (*create)(void* user, const camshaft_plugin_node* node, void** instance);
  void (*destroy)(void* instance);
  /* Bytes that are stored in engines, valid as long as the instance; `create` gets them when one is loaded. Null: none.
   */
  int32_t (*state)(void* instance, const void** bytes, size_t* size);
  /* Types that operand i may have: bit 1 << dtype of types[i], of the last one for further operands. A narrow float is
   * given as f32 where that is taken and it is not, and f32 results are made as narrow again. None: any type. */
  const uint64_t* types;
  size_t type_count;
  int32_t (*infer)(void* instance, camshaft_plugin_shapes* shapes);
  /* So many ways to run it, which the build measures; 0 counts as 1. */
  size_t tactic_count;
  /* Whether run->tactic can run these shapes; where it cannot, the first one that can is run. Null: each can. */
  int32_t (*supports)(void* instance, const camshaft_plugin_run* run);
  /* Expected seconds on one thread, or a negative number. Null: as long as its operands take to be read and written. */
  double (*cost)(void* instance, const camshaft_plugin_run* run);
  size_t (*workspace)(void* instance, const camshaft_plugin_run* run);
  /* Computes the outputs on the CPU. Null: it runs on GPUs alone, and without a reference its own run on one, by
   * itself, counts as right. */
  int32_t (*enqueue)(void* instance, const camshaft_plugin_run* run);
  /* Puts what computes the outputs on a GPU into run->cuda->stream, and waits for nothing. Null: it runs on the host.
   * Other functions are asked with run->cuda set when they are asked for it. */
  int32_t (*enqueue_cuda)(void* instance, const camshaft_plugin_run* run);
  /* CUDA C++ of kernels for run->cuda->launch, extern "C" __global__, which is compiled when an engine is built or
   * loaded. Null: enqueue_cuda has kernels of its own. */
  const char* cuda_text;
  /* 1: enqueue_cuda does not put the same work into the stream each time. Else it is recorded (a CUDA graph), and
   * repeated without calling it again. */
  int32_t cuda_is_not_recorded;
  /* The same as enqueue, as plain as can be: what engines are verified against. Null: tactic 0 of enqueue on one
   * thread, or of enqueue_cuda by itself, and reports say so. */
  int32_t (*reference)(void* instance, const camshaft_plugin_run* run);
  /* Instead of all functions above: a scalar expression as docs/plugins.md has them, "(x, alpha = 1) = x *
   * tanh(alpha)". It is fused and computed like operators of Camshaft's own. */
  const char* expression;
  /* Kernels for run->cuda->launch that are compiled already, instead of cuda_text: a cubin, a fat binary or PTX. */
  const void* cuda_module;
  size_t cuda_module_bytes;
  /* Kernels for GPUs that are compiled ahead of time: asked of each node when its model is read, instead of
   * enqueue_cuda. Engines keep what it gives, and run it without the plugin, which they are verified against. One that
   * adds no tactic leaves the node as it is. Null: there are none. */
  int32_t (*compile)(void* instance, camshaft_plugin_kernels* kernels);
  /* How many ways there are to run such operands, where that is not the same for all nodes: instead of tactic_count. 0
   * counts as 1. Null: it is. */
  size_t (*count_tactics)(void* instance, const camshaft_plugin_run* run);
  /* Orders of the axes that operand i is taken in and result i given in, of the last one for further ones. Sizes are in
   * that order wherever the operator sees them, its shape rule and kernels included. Operands and results of fewer than
   * three axes have one order alone. None: as in the model. */
  const int32_t* input_layouts;
  size_t input_layout_count;
  const int32_t* output_layouts;
  size_t output_layout_count;
  /* Tells operators of one name apart that a library gives at different times (CAMSHAFT_PLUGIN_MAY_CHANGE): an engine
   * is loaded with the one of its own variant alone. Null: the library's file says enough. */
  const char* variant;
} camshaft_plugin_operator;

typedef struct camshaft_plugin_library {
  size_t size;
  uint32_t abi; /* CAMSHAFT_PLUGIN_ABI */
  size_t operator_count;
  const camshaft_plugin_operator* const* operators;
} camshaft_plugin_library;

/* What a plugin exports, by this name. What it gives is never freed. `abi` is the CAMSHAFT_PLUGIN_ABI of the caller. */
typedef const camshaft_plugin_library* (*camshaft_plugin_entry_function)(uint32_t abi);
#define CAMSHAFT_PLUGIN_ENTRY "camshaft_plugin_entry"
/* A library that exports anything by this name may give other operators in a later call, or none at first. It is to be
 * loaded again when they have changed. */
#define CAMSHAFT_PLUGIN_MAY_CHANGE "camshaft_plugin_may_change"

/* ---- Of libcamshaft: what programs load, for the whole process ---- */

/* Loads operators that models may use and engines may need: of a shared library (as above), of an ONNX model whose
 * functions are operators, or of one written as text, "my::Scaled(x, alpha = 1) = alpha * tanh(x)". Loading the same
 * thing again changes nothing; there is no unloading. A library's code runs in this process. */
CAMSHAFT_API camshaft_status camshaft_load_plugin(const char* source);
/* Loads the operators of a library that was made for ONNX Runtime: one that exports RegisterCustomOps and calls through
 * its OrtApi. They run on the host. Loading the same library again changes nothing. */
CAMSHAFT_API camshaft_status camshaft_load_ort_custom_ops(const char* library);
/* Takes an operator that the program brings itself, and what it points to, for as long as the process runs. `source`
 * stands for the library's file in messages and engines; `hash` tells one version of its code from another: an engine
 * is loaded with the same one alone. */
CAMSHAFT_API camshaft_status camshaft_register_plugin(const camshaft_plugin_operator* plugin, const char* source,
                                                      const char* hash);
/* Takes an operator ("my::Op") out of what models mean: another one of its name may be registered then. Engines that
 * have it keep it, and those that are loaded later find it. CAMSHAFT_INVALID_ARGUMENT where a plugin of that name is
 * not loaded. */
CAMSHAFT_API camshaft_status camshaft_unregister_plugin(const char* name);
/* [{name ("my::Op"), kind ("plugin", "text" or "function"), version, file, hash}] */
CAMSHAFT_API camshaft_status camshaft_list_plugins(camshaft_record** plugins);

enum {
  /* Plugins run on copies of their operands between guard zones: what writes beyond its outputs or workspace, or to its
   * inputs, ends its run with an error that names it. Builds verify so in any case. */
  CAMSHAFT_PLUGIN_GUARDS = 1,
  /* Builds run every tactic of every plugin's operator against its reference evaluation first, over sizes with tails.
   */
  CAMSHAFT_PLUGIN_VERIFY = 2
};
/* Turns on these checks, and the others off. None at first. */
CAMSHAFT_API camshaft_status camshaft_set_plugin_checks(int32_t checks);

#ifdef __cplusplus
}
#endif

#endif
