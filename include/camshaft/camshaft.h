/* The C interface of libcamshaft: all that the library exports. camshaft.hpp is the same for C++.
 *
 * Objects are opaque handles; what a function gives through its last pointers is the caller's to free, unless it says
 * otherwise, and every ..._free takes null. Functions that can fail return a camshaft_status; camshaft_error_message()
 * then says, on the same thread, what failed, where, and what to do about it. Pointers that a handle gives are valid
 * until that handle is freed or changed. Text is UTF-8 and ends with a zero byte.
 *
 * Handles may be used from several threads as long as no two change one at the same time; engines never change.
 * Whatever a later version adds has new names: programs that were linked with this one run with it. Its threads live as
 * long as the process: the library stays loaded after dlclose(). */
#ifndef CAMSHAFT_CAMSHAFT_H
#define CAMSHAFT_CAMSHAFT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CAMSHAFT_API __attribute__((visibility("default")))
#else
#define CAMSHAFT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors, version, messages ---- */

/* What kind of thing went wrong. */
typedef int32_t camshaft_status;
enum {
  CAMSHAFT_OK = 0,
  CAMSHAFT_INVALID_ARGUMENT = 1,    /* a wrong name, shape, dtype or option given by the caller */
  CAMSHAFT_INVALID_MODEL = 2,       /* the ONNX file is malformed or contradicts the standard */
  CAMSHAFT_UNSUPPORTED = 3,         /* a valid model that uses something Camshaft cannot run */
  CAMSHAFT_IO = 4,                  /* a file could not be read or written */
  CAMSHAFT_CORRUPT_ENGINE = 5,      /* an engine that is damaged or of another format version */
  CAMSHAFT_OUT_OF_MEMORY = 6,       /* an allocation failed */
  CAMSHAFT_CANCELLED = 7,           /* the caller asked to stop */
  CAMSHAFT_VERIFICATION_FAILED = 8, /* the engine's results differ from the reference */
  CAMSHAFT_INTERNAL = 9             /* a defect in Camshaft itself */
};

/* "0.1.0" */
CAMSHAFT_API const char* camshaft_version(void);
/* "invalid argument", …; "ok". */
CAMSHAFT_API const char* camshaft_status_name(camshaft_status status);
/* Of the last call on this thread that failed; "" when none did. Valid until the next one that fails. */
CAMSHAFT_API const char* camshaft_error_message(void);

enum { CAMSHAFT_LOG_DEBUG = 0, CAMSHAFT_LOG_INFO = 1, CAMSHAFT_LOG_WARNING = 2, CAMSHAFT_LOG_ERROR = 3 };
/* `message` has `length` bytes and no line end. Called from any thread, but by one at a time. Must not call back into
 * the library. */
typedef void (*camshaft_log_function)(void* user, int32_t level, const char* message, size_t length);
/* Sends all messages of `level` and above there, for the whole process; null brings back the logger of the start, which
 * writes warnings and errors to stderr. `release`, if not null, gets `user` when it is no longer needed. */
CAMSHAFT_API camshaft_status camshaft_set_logger(camshaft_log_function log, void* user, void (*release)(void* user),
                                                 int32_t level);
/* Changes the level alone. */
CAMSHAFT_API camshaft_status camshaft_set_log_level(int32_t level);

/* Frees bytes that the library gave (camshaft_engine_save_memory). */
CAMSHAFT_API void camshaft_free(void* bytes);

/* ---- Element types and devices ---- */

/* The numbers are part of the engine format. */
typedef int32_t camshaft_dtype;
enum {
  CAMSHAFT_F64 = 0,
  CAMSHAFT_F32 = 1,
  CAMSHAFT_F16 = 2,
  CAMSHAFT_BF16 = 3,
  CAMSHAFT_F8E4M3 = 4,
  CAMSHAFT_F8E5M2 = 5,
  CAMSHAFT_F4E2M1 = 6,
  CAMSHAFT_I64 = 7,
  CAMSHAFT_I32 = 8,
  CAMSHAFT_I16 = 9,
  CAMSHAFT_I8 = 10,
  CAMSHAFT_I4 = 11,
  CAMSHAFT_U64 = 12,
  CAMSHAFT_U32 = 13,
  CAMSHAFT_U16 = 14,
  CAMSHAFT_U8 = 15,
  CAMSHAFT_U4 = 16,
  CAMSHAFT_BOOL = 17,   /* one byte, 0 or 1 */
  CAMSHAFT_STRING = 18, /* see camshaft_tensor_text */
  CAMSHAFT_F8E4M3FNUZ = 19,
  CAMSHAFT_F8E5M2FNUZ = 20,
  CAMSHAFT_F8E8M0 = 21, /* a power of two from 2^-127 to 2^127, or NaN */
  CAMSHAFT_I2 = 22,
  CAMSHAFT_U2 = 23,
  CAMSHAFT_SEQUENCE = 24, /* any number of values of one type */
  CAMSHAFT_OPTIONAL = 25, /* one value or none */
  CAMSHAFT_MAP = 26       /* keys and values: two tensors of one axis, equally long */
};
/* "f32", "bool", …; null for a number that is none. */
CAMSHAFT_API const char* camshaft_dtype_name(camshaft_dtype dtype);
CAMSHAFT_API camshaft_status camshaft_dtype_parse(const char* name, camshaft_dtype* dtype);
/* Bits of one element as stored: 4 or 2 for the packed types, 8 for bool; 0 for strings and containers. */
CAMSHAFT_API int32_t camshaft_dtype_bits(camshaft_dtype dtype);

/* Whose memory something is in, as DLPack numbers devices. */
typedef struct camshaft_device {
  int32_t type; /* 1: the host; 2: a GPU of CUDA; 3 and 13: memory that both reach (pinned, managed) */
  int32_t ordinal;
} camshaft_device;
/* "cpu", "cuda" (the first GPU), or a GPU by its number, "cuda:1"; whether it is there is not asked. */
CAMSHAFT_API camshaft_status camshaft_device_parse(const char* text, camshaft_device* device);

/* ---- Records: facts as trees of named values ----
 *
 * What the library reports is a record, so that a later version can say more. A record that another one holds is freed
 * with it; camshaft_record_free is for those that a call gave. */

typedef struct camshaft_record camshaft_record;
enum {
  CAMSHAFT_RECORD_NULL = 0,
  CAMSHAFT_RECORD_BOOLEAN = 1,
  CAMSHAFT_RECORD_INTEGER = 2,
  CAMSHAFT_RECORD_NUMBER = 3,
  CAMSHAFT_RECORD_TEXT = 4,
  CAMSHAFT_RECORD_LIST = 5,
  CAMSHAFT_RECORD_OBJECT = 6 /* values by name, sorted */
};
CAMSHAFT_API int32_t camshaft_record_kind(const camshaft_record* record);
/* Of a list or an object; 0 of others. */
CAMSHAFT_API size_t camshaft_record_size(const camshaft_record* record);
/* Null beyond the end. */
CAMSHAFT_API const camshaft_record* camshaft_record_at(const camshaft_record* record, size_t index);
CAMSHAFT_API const char* camshaft_record_key(const camshaft_record* record, size_t index);
/* Null where there is none. */
CAMSHAFT_API const camshaft_record* camshaft_record_get(const camshaft_record* record, const char* key);
/* The value; "" or 0 of a record of another kind, but that integers are numbers, too. `length` may be null. */
CAMSHAFT_API const char* camshaft_record_text(const camshaft_record* record, size_t* length);
CAMSHAFT_API int64_t camshaft_record_integer(const camshaft_record* record);
CAMSHAFT_API double camshaft_record_number(const camshaft_record* record);
CAMSHAFT_API int32_t camshaft_record_boolean(const camshaft_record* record);
/* As JSON, in a record of text; infinities and NaN become null. `indent`: spaces, or -1 for one line. */
CAMSHAFT_API camshaft_status camshaft_record_json(const camshaft_record* record, int32_t indent,
                                                  camshaft_record** text);
CAMSHAFT_API void camshaft_record_free(camshaft_record* record);

/* ---- Tensors: row-major and dense ---- */

typedef struct camshaft_tensor camshaft_tensor;
/* Zeros (or empty strings) in memory of its own, on the host. */
CAMSHAFT_API camshaft_status camshaft_tensor_create(camshaft_dtype dtype, size_t rank, const int64_t* dims,
                                                    camshaft_tensor** tensor);
/* The same in memory of the host that a device ("cuda:0") reads and writes by itself; of "cpu" any is. No strings. */
CAMSHAFT_API camshaft_status camshaft_tensor_create_pinned(const char* device, camshaft_dtype dtype, size_t rank,
                                                           const int64_t* dims, camshaft_tensor** tensor);
/* Memory of the caller's, which must outlive the tensor; no strings and no containers. 4-bit elements are packed two to
 * a byte, 2-bit ones four, the first in the low bits. */
CAMSHAFT_API camshaft_status camshaft_tensor_view(camshaft_dtype dtype, size_t rank, const int64_t* dims,
                                                  const void* data, size_t bytes, camshaft_device device,
                                                  camshaft_tensor** tensor);
/* A sequence, an optional (of one element or none) or a map (of keys and values) of copies of tensors. */
CAMSHAFT_API camshaft_status camshaft_tensor_container(camshaft_dtype dtype, const camshaft_tensor* const* elements,
                                                       size_t count, camshaft_tensor** tensor);
/* In memory of its own on a device: "cpu", "cuda" (the first GPU), "cuda:1". */
CAMSHAFT_API camshaft_status camshaft_tensor_copy(const camshaft_tensor* tensor, const char* device,
                                                  camshaft_tensor** copy);
/* The elements of a tensor on the host as another type: a float as any float (rounded to the nearest, infinities stay),
 * any number as f64. */
CAMSHAFT_API camshaft_status camshaft_tensor_convert(const camshaft_tensor* tensor, camshaft_dtype dtype,
                                                     camshaft_tensor** converted);
CAMSHAFT_API camshaft_dtype camshaft_tensor_dtype(const camshaft_tensor* tensor);
CAMSHAFT_API size_t camshaft_tensor_rank(const camshaft_tensor* tensor);
CAMSHAFT_API const int64_t* camshaft_tensor_dims(const camshaft_tensor* tensor);
CAMSHAFT_API camshaft_device camshaft_tensor_device(const camshaft_tensor* tensor);
/* Null for strings and containers. */
CAMSHAFT_API const void* camshaft_tensor_data(const camshaft_tensor* tensor);
/* Of camshaft_tensor_create and camshaft_tensor_create_pinned alone; null of others. */
CAMSHAFT_API void* camshaft_tensor_mutable_data(camshaft_tensor* tensor);
CAMSHAFT_API size_t camshaft_tensor_bytes(const camshaft_tensor* tensor);
/* Of strings: element `index`, in row-major order. */
CAMSHAFT_API const char* camshaft_tensor_text(const camshaft_tensor* tensor, size_t index, size_t* length);
CAMSHAFT_API camshaft_status camshaft_tensor_set_text(camshaft_tensor* tensor, size_t index, const char* text,
                                                      size_t length);
/* Of a container: how many values it has, and each; null beyond the end. */
CAMSHAFT_API size_t camshaft_tensor_count(const camshaft_tensor* tensor);
CAMSHAFT_API const camshaft_tensor* camshaft_tensor_element(const camshaft_tensor* tensor, size_t index);
CAMSHAFT_API void camshaft_tensor_free(camshaft_tensor* tensor);

/* Tensors by name, in the order in which they were added. */
typedef struct camshaft_tensors camshaft_tensors;
CAMSHAFT_API camshaft_status camshaft_tensors_create(camshaft_tensors** tensors);
/* What the tensor's memory is stays the tensor's: it must outlive the list where it is memory of the caller's. */
CAMSHAFT_API camshaft_status camshaft_tensors_add(camshaft_tensors* tensors, const char* name,
                                                  const camshaft_tensor* tensor);
CAMSHAFT_API size_t camshaft_tensors_count(const camshaft_tensors* tensors);
/* Null beyond the end. */
CAMSHAFT_API const char* camshaft_tensors_name(const camshaft_tensors* tensors, size_t index);
CAMSHAFT_API const camshaft_tensor* camshaft_tensors_get(const camshaft_tensors* tensors, size_t index);
CAMSHAFT_API void camshaft_tensors_free(camshaft_tensors* tensors);
/* All arrays of a .npz file of NumPy's, in its order, stored or compressed; of a .npy file its one, by the name "". */
CAMSHAFT_API camshaft_status camshaft_read_arrays(const char* path, camshaft_tensors** arrays);

/* Shapes by name. */
typedef struct camshaft_shapes camshaft_shapes;
CAMSHAFT_API camshaft_status camshaft_shapes_create(camshaft_shapes** shapes);
/* Takes the place of an earlier shape of that name. */
CAMSHAFT_API camshaft_status camshaft_shapes_set(camshaft_shapes* shapes, const char* name, size_t rank,
                                                 const int64_t* dims);
CAMSHAFT_API void camshaft_shapes_free(camshaft_shapes* shapes);

/* ---- Stopping a long call ---- */

typedef struct camshaft_cancellation camshaft_cancellation;
CAMSHAFT_API camshaft_status camshaft_cancellation_create(camshaft_cancellation** cancellation);
/* Safe from any thread and from a signal handler. Calls that were given the handle end soon with CAMSHAFT_CANCELLED and
 * leave nothing half-done. */
CAMSHAFT_API void camshaft_cancellation_cancel(camshaft_cancellation* cancellation);
CAMSHAFT_API int32_t camshaft_cancellation_is_cancelled(const camshaft_cancellation* cancellation);
CAMSHAFT_API void camshaft_cancellation_free(camshaft_cancellation* cancellation);

/* ---- Options, by the names that the command line has ---- */

typedef struct camshaft_options camshaft_options;
enum { CAMSHAFT_BUILD = 1, CAMSHAFT_CONTEXT = 2, CAMSHAFT_CALIBRATION = 3, CAMSHAFT_LOAD = 4 };
/* All at their defaults. `what`: CAMSHAFT_BUILD, CAMSHAFT_CONTEXT, CAMSHAFT_CALIBRATION or CAMSHAFT_LOAD. */
CAMSHAFT_API camshaft_status camshaft_options_create(int32_t what, camshaft_options** options);
CAMSHAFT_API camshaft_status camshaft_options_copy(const camshaft_options* options, camshaft_options** copy);
CAMSHAFT_API void camshaft_options_free(camshaft_options* options);
/* Sets an option: "fp16" to "true". An unknown name, or text that is no value of that option, is
 * CAMSHAFT_INVALID_ARGUMENT with a message that names what was probably meant. A list gets one more item. */
CAMSHAFT_API camshaft_status camshaft_options_set(camshaft_options* options, const char* name, const char* value);
CAMSHAFT_API camshaft_status camshaft_options_set_boolean(camshaft_options* options, const char* name, int32_t value);
CAMSHAFT_API camshaft_status camshaft_options_set_integer(camshaft_options* options, const char* name, int64_t value);
CAMSHAFT_API camshaft_status camshaft_options_set_number(camshaft_options* options, const char* name, double value);
/* What an option is now. */
CAMSHAFT_API camshaft_status camshaft_options_get(const camshaft_options* options, const char* name,
                                                  camshaft_record** value);
/* All options: [{name, kind, default, description}], with {choices} where text is one of a few words. */
CAMSHAFT_API camshaft_status camshaft_options_list(int32_t what, camshaft_record** list);

/* Of a build or a calibration: one more range of shapes to tune for and to accept, by the names of inputs. Shapes that
 * are null, and inputs that one of them leaves out, follow from the others: no optimum means the largest (the smallest
 * without one), neither smallest nor largest mean the optimum. Without any an engine takes all shapes. */
CAMSHAFT_API camshaft_status camshaft_options_add_profile(camshaft_options* options, const camshaft_shapes* smallest,
                                                          const camshaft_shapes* optimum,
                                                          const camshaft_shapes* largest);
CAMSHAFT_API camshaft_status camshaft_options_clear_profiles(camshaft_options* options);
/* Of a build: inputs to verify the engine on; those left out are made from "seed". Memory of the caller's must stay
 * valid until the build is done. */
CAMSHAFT_API camshaft_status camshaft_options_set_inputs(camshaft_options* options, const camshaft_tensors* inputs);
/* One more set of them, of other sizes if need be: judged as long as "verify-seconds" is expected to suffice. */
CAMSHAFT_API camshaft_status camshaft_options_add_inputs(camshaft_options* options, const camshaft_tensors* inputs);
/* `stage` is what is being done ("optimising", "verifying", …), `fraction` how far it is, in [0, 1]. A result other
 * than 0 stops the build with CAMSHAFT_CANCELLED. */
typedef int32_t (*camshaft_progress_function)(void* user, const char* stage, double fraction);
CAMSHAFT_API camshaft_status camshaft_options_set_progress(camshaft_options* options,
                                                           camshaft_progress_function progress, void* user);
CAMSHAFT_API camshaft_status camshaft_options_set_cancellation(camshaft_options* options,
                                                               const camshaft_cancellation* cancellation);

/* Worker threads that contexts share. Runs that overlap in time divide them evenly; results do not depend on how many
 * a run gets. */
typedef struct camshaft_workers camshaft_workers;
/* `threads` counts the callers of runs too, which always run: beside them compute at most as many workers as remain of
 * it, none where the callers are as many or more. 0: one for each core that the process may use. */
CAMSHAFT_API camshaft_status camshaft_workers_create(int32_t threads, camshaft_workers** workers);
/* Contexts that were made with them keep them. */
CAMSHAFT_API void camshaft_workers_free(camshaft_workers* workers);
/* Of a context: null are those of the process, which all contexts share that are given no others and no more "threads"
 * than the process has cores; with more a context has workers of its own. */
CAMSHAFT_API camshaft_status camshaft_options_set_workers(camshaft_options* options, const camshaft_workers* workers);

/* ---- Networks: models that a program makes node by node ----
 *
 * Nodes are ONNX's, under their standard names; values are named as ONNX's tensors are. Each call checks its arguments
 * and tells the type of what it adds: {name, dtype, dims (-1 where a size has no number), dim_names, ranked (whether
 * the sizes are known at all), type}. A call that fails leaves the network as it was. */

typedef struct camshaft_network camshaft_network;
/* `opset`: the version of ONNX's operator set that operators are read by; 0: the newest. */
CAMSHAFT_API camshaft_status camshaft_network_create(const char* name, int64_t opset, camshaft_network** network);
/* The body of an If, a Loop or a Scan, which is then an attribute of that node in `network`. It has inputs and outputs
 * of its own and sees the values of the networks around it. */
CAMSHAFT_API camshaft_status camshaft_network_create_subgraph(camshaft_network* network, const char* name,
                                                              camshaft_network** subgraph);
/* Sub-graphs and engines that were made of it stay as they are. */
CAMSHAFT_API void camshaft_network_free(camshaft_network* network);
/* `type`: a dtype ("f32"), with `rank` sizes; or a type as ONNX's schemas write it, "seq(tensor(float))", where sizes
 * may follow the type of elements: "seq(tensor(float)[2,?])". A size of -1 has the name that `dim_names` gives it (the
 * same name is the same size), or none where that or its entry is null. `value` may be null, here and below. */
CAMSHAFT_API camshaft_status camshaft_network_add_input(camshaft_network* network, const char* name, const char* type,
                                                        size_t rank, const int64_t* dims, const char* const* dim_names,
                                                        camshaft_record** value);
/* `name` may be null. A view of the caller's memory is not copied where `release` is given: that gets `user`, on
 * whichever thread, as soon as neither the network nor an engine needs the memory, also where this call fails. */
CAMSHAFT_API camshaft_status camshaft_network_add_constant(camshaft_network* network, const char* name,
                                                           const camshaft_tensor* tensor, void (*release)(void* user),
                                                           void* user, camshaft_record** value);
/* The numbers are those of ONNX's AttributeProto. */
enum {
  CAMSHAFT_ATTRIBUTE_FLOAT = 1,
  CAMSHAFT_ATTRIBUTE_INTEGER = 2,
  CAMSHAFT_ATTRIBUTE_TEXT = 3,
  CAMSHAFT_ATTRIBUTE_TENSOR = 4,
  CAMSHAFT_ATTRIBUTE_GRAPH = 5,
  CAMSHAFT_ATTRIBUTE_FLOATS = 6,
  CAMSHAFT_ATTRIBUTE_INTEGERS = 7,
  CAMSHAFT_ATTRIBUTE_TEXTS = 8,
  CAMSHAFT_ATTRIBUTE_TYPE = 13 /* as text: "seq(tensor(float))" */
};
/* The pointer that `type` says shows `count` values, one of what is no list. All is copied. */
typedef struct camshaft_attribute {
  const char* name;
  int32_t type;
  size_t count;
  const float* floats;
  const int64_t* integers;
  const char* const* texts;
  const camshaft_tensor* const* tensors;
  const camshaft_network* const* graphs;
} camshaft_attribute;
/* `domain`: "" (or null) for ONNX's own, "com.microsoft", … An input of "" is left out. `outputs` are names: null for
 * one that is made up, "" for a result that nobody needs; all may be null at once. `name`, the node's, may be null.
 * `values` gets a list, null for what is left out. A wrong operator, argument, type or shape is
 * CAMSHAFT_INVALID_ARGUMENT with a message that names it and what would be taken; what Camshaft cannot run is
 * CAMSHAFT_UNSUPPORTED. */
CAMSHAFT_API camshaft_status camshaft_network_add_node(camshaft_network* network, const char* op_type,
                                                       const char* domain, const char* name, const char* const* inputs,
                                                       size_t input_count, const camshaft_attribute* attributes,
                                                       size_t attribute_count, const char* const* outputs,
                                                       size_t output_count, camshaft_record** values);
/* One more output, in the order of the calls; under another name than the value's where `name` is not null. */
CAMSHAFT_API camshaft_status camshaft_network_mark_output(camshaft_network* network, const char* value,
                                                          const char* name);
/* What a value is. */
CAMSHAFT_API camshaft_status camshaft_network_value(camshaft_network* network, const char* name,
                                                    camshaft_record** value);
/* What an operator takes here: {domain, operator, since, inputs and outputs: [{name, type, count ("one", "optional",
 * "any")}], attributes: [{name, type, type_name, required}], open (whether it takes attributes of other names)}. */
CAMSHAFT_API camshaft_status camshaft_network_operator(camshaft_network* network, const char* domain,
                                                       const char* op_type, camshaft_record** schema);
/* As an ONNX file. Unless `external_data` is 0, tensors of 1 KiB and more lie in "<path>.data" beside it, as they do
 * where one file would be larger than 2 GiB. */
CAMSHAFT_API camshaft_status camshaft_network_save_file(camshaft_network* network, const char* path,
                                                        int32_t external_data);
/* As the bytes of an ONNX file, up to 2 GiB; free them with camshaft_free. */
CAMSHAFT_API camshaft_status camshaft_network_save_memory(camshaft_network* network, void** data, size_t* bytes);

/* ---- Engines ---- */

typedef struct camshaft_engine camshaft_engine;
/* Compiles an ONNX file (and its external data). `options` may be null. `report`, where it is not null, gets what the
 * build did, also when it fails with CAMSHAFT_VERIFICATION_FAILED: {verification: [{output, max_error, scale, exact,
 * differing, undecided, passed, telling, relative_error, doubt, compared}], samples, not_verified, sensitivity,
 * rounding_noise, judged_tensors, undecided_tensors, layers_error, seconds_import, seconds_optimize, seconds_tune,
 * seconds_compile, seconds_verify, problems_measured, problems_cached, problems_out_of_time, approximate_refused,
 * kept_f32, quantized_layers: [{layer, quantized, precision, reason, float_seconds, int8_seconds}], gains: [{precision,
 * speedup, error (null: not known)}], model_nodes, passes, layers, refittable, not_refittable, refit_costs, lora}. With
 * the option refit, refittable and what follows are how many initializers can be replaced, which cannot and why, and
 * what was not done for it; lora is what each adapter updates. An engine that cannot be verified, for want of inputs
 * that the reference accepts or that give anything finite, is CAMSHAFT_INVALID_ARGUMENT: give inputs, or build without
 * verification. */
CAMSHAFT_API camshaft_status camshaft_build_file(const char* path, const camshaft_options* options,
                                                 camshaft_engine** engine, camshaft_record** report);
/* The same of a model in memory. `folder` has its external data; null where it has none. `name` stands for the path in
 * messages and in the engine's metadata. */
CAMSHAFT_API camshaft_status camshaft_build_memory(const void* model, size_t bytes, const char* name,
                                                   const char* folder, const camshaft_options* options,
                                                   camshaft_engine** engine, camshaft_record** report);
/* The same of a network, which may be changed afterwards. */
CAMSHAFT_API camshaft_status camshaft_build_network(camshaft_network* network, const camshaft_options* options,
                                                    camshaft_engine** engine, camshaft_record** report);
/* Maps an engine file. An engine built on another machine loads too: its kernels are chosen again for this one.
 * `options` (CAMSHAFT_LOAD) may be null. */
CAMSHAFT_API camshaft_status camshaft_engine_load_file(const char* path, const camshaft_options* options,
                                                       camshaft_engine** engine);
/* The bytes are copied. */
CAMSHAFT_API camshaft_status camshaft_engine_load_memory(const void* data, size_t bytes,
                                                         const camshaft_options* options, camshaft_engine** engine);
/* Through a temporary name: the file is either complete or untouched. */
CAMSHAFT_API camshaft_status camshaft_engine_save_file(const camshaft_engine* engine, const char* path);
/* What the file would hold; free it with camshaft_free. */
CAMSHAFT_API camshaft_status camshaft_engine_save_memory(const camshaft_engine* engine, void** data, size_t* bytes);
/* The same with the weights that a refit can replace (1) or without (0). The other call has them but for an engine that
 * was built with "strip-weights", or loaded so, and not refitted since. */
CAMSHAFT_API camshaft_status camshaft_engine_save_memory_with(const camshaft_engine* engine, int32_t weights,
                                                              void** data, size_t* bytes);
CAMSHAFT_API void camshaft_engine_free(camshaft_engine* engine);
/* Whether a file begins like an engine: to tell it from a model, not to trust it. */
CAMSHAFT_API camshaft_status camshaft_is_engine_file(const char* path, int32_t* is_engine);

/* What it runs on: memory of a GPU that is bound must be this one's. */
CAMSHAFT_API camshaft_device camshaft_engine_device(const camshaft_engine* engine);
/* {inputs and outputs: [{name, dtype, dims (-1 where a size is dynamic), dim_names, type,
 * aliased_input (of an output: the input that it may share memory with; else empty)}], profiles: [{input: {min,
 * opt, max}}], metadata: {name: text}, device: {kind, name, isa, cores, memory_bytes, features, limits}, refittable:
 * whether its weights can be replaced, ranks: how many run at the same time, each its engine; 0: it runs alone}. */
CAMSHAFT_API camshaft_status camshaft_engine_info(const camshaft_engine* engine, camshaft_record** info);
/* The steps of a run: [{name, op, tactic, description, inputs, outputs, sources, tried: [{tactic, estimated_ns,
 * measured_ns (-1: not measured), refused}], notes, at_binding (depends on no input: runs once for each set of
 * shapes), reads (the layers whose results it reads, by their place in this list), weights: the constants that it
 * reads, [{name, layout (empty: its own bytes), bytes, offset (in the engine's file; -1: in memory)}], streamed_bytes
 * (of weights that come in for each run)}]. */
CAMSHAFT_API camshaft_status camshaft_engine_layers(const camshaft_engine* engine, camshaft_record** layers);
/* Of all tensors that camshaft_context_set_tap takes: [name]. */
CAMSHAFT_API camshaft_status camshaft_engine_tensor_names(const camshaft_engine* engine, camshaft_record** names);
/* {arena_bytes, arena_lower_bound, weight_bytes, kept_bytes (what depends on the shapes alone: computed once for each
 * set, and kept)} at the optimum of the first profile. */
CAMSHAFT_API camshaft_status camshaft_engine_memory(const camshaft_engine* engine, camshaft_record** memory);
/* How many bytes of weights may be in memory at once, from the next run of each context on: the option weight-budget of
 * CAMSHAFT_LOAD, for an engine that is loaded or was built. Null, "" and "none": all. Waits for a run under way. */
CAMSHAFT_API camshaft_status camshaft_engine_set_weight_budget(camshaft_engine* engine, const char* budget);
/* {weight_bytes (of an engine for a GPU those in its memory), streamable_bytes (that lie in the engine's file as
 * kernels read them; for a GPU all), least_budget (-1 of an engine in memory, until it has a budget, and so a temporary
 * file), automatic_budget, budget (-1: none), staying_bytes, window_bytes (for those that come in), loads_bytes (that
 * come in for each run), brought_bytes (that came in so far), waited_seconds (that layers have waited for them; not of
 * a GPU)}.
 */
CAMSHAFT_API camshaft_status camshaft_engine_weight_streaming(const camshaft_engine* engine,
                                                              camshaft_record** streaming);
/* The layers as an ONNX file to look at, in Netron for one: a node for each, of the domain "camshaft" and the type that
 * camshaft_engine_layers calls its op, with what it says of the layer as attributes; of constants the names and types
 * alone, and an output that is a view of a layer's result is a node "view". Free it with camshaft_free. */
CAMSHAFT_API camshaft_status camshaft_engine_layers_onnx(const camshaft_engine* engine, void** data, size_t* bytes);
/* The optimised graph in its text form. */
CAMSHAFT_API camshaft_status camshaft_engine_graph(const camshaft_engine* engine, camshaft_record** text);
/* The work of each layer for inputs of these shapes (all that are not fixed): [{flops, exponentials, constant_bytes,
 * activation_bytes, inputs and outputs ("name: f32[8, 64]"), and, of what runs on a GPU, limit and limit_seconds: what
 * decides at its highest clock, and the least time it could take}], null where a size is known only after running. */
CAMSHAFT_API camshaft_status camshaft_engine_layer_costs(const camshaft_engine* engine, const camshaft_shapes* shapes,
                                                         camshaft_record** costs);
/* What lies where in the arena, in a context of so many threads (0: one for each core), for inputs of these shapes (all
 * that are not fixed): [{name, workspace (scratch memory of one step), device, offset, bytes, first_step, last_step}],
 * steps as camshaft_engine_layers lists them. */
CAMSHAFT_API camshaft_status camshaft_engine_arena(const camshaft_engine* engine, const camshaft_shapes* shapes,
                                                   int32_t threads, camshaft_record** buffers);
/* How far the tensors that an engine shares with the model at `path`, of which it was built, are from the reference
 * evaluation, each given the engine's tensors before it, on these inputs (all of the model's): [what an entry of
 * "verification" of camshaft_build_file has, and layer: that computed it, in words], in the order of the model. Floats
 * pass within `tolerance`; rounding excuses nothing. `cancellation` may be null. */
CAMSHAFT_API camshaft_status camshaft_engine_tensor_errors(const camshaft_engine* engine, const char* path,
                                                           const camshaft_tensors* inputs, double tolerance,
                                                           int32_t threads, const camshaft_cancellation* cancellation,
                                                           camshaft_record** errors);
/* The nodes of an ONNX file's graph as they stand there: {inputs, outputs, initializers: [name], nodes: [{name (as
 * "sources" of layers have it), op, domain, inputs, outputs}]}. */
CAMSHAFT_API camshaft_status camshaft_model_nodes(const char* path, camshaft_record** nodes);
/* An input for each of the engine's, the same for the same seed on every machine. `shapes` (may be null) says sizes;
 * others are the first profile's optimum, or guessed. */
CAMSHAFT_API camshaft_status camshaft_engine_sample_inputs(const camshaft_engine* engine, const camshaft_shapes* shapes,
                                                           uint64_t seed, camshaft_tensors** inputs);

/* ---- Refitting ---- */

/* Collects new weights for an engine that was built with the option refit, and gives them to it at once. One thread at
 * a time uses a refitter; several refitters of one engine take turns. It holds on to the engine. */
typedef struct camshaft_refitter camshaft_refitter;
/* CAMSHAFT_INVALID_ARGUMENT for an engine that was built without that option. */
CAMSHAFT_API camshaft_status camshaft_refitter_create(const camshaft_engine* engine, camshaft_refitter** refitter);
CAMSHAFT_API void camshaft_refitter_free(camshaft_refitter* refitter);
/* The initializers of the model that the engine was built of, as far as nodes read them: [{name, dtype, dims, fixed_by
 * (what was decided by its numbers, so that only the same ones can be set; "" where it can be replaced), layers: [name]
 * (those that read what is made of it), nodes: [{name, op, input}] (of the model's main graph that read it; the name of
 * one without is "Conv_3", if it is the fourth node), is_set}], in the order of their names. */
CAMSHAFT_API camshaft_status camshaft_refitter_weights(const camshaft_refitter* refitter, camshaft_record** weights);
/* What must be set besides what is, as constants are made of both: [name]. */
CAMSHAFT_API camshaft_status camshaft_refitter_missing(const camshaft_refitter* refitter, camshaft_record** names);
/* Puts a tensor of the host in the place of an initializer. Its memory must stay as it is until the refit. */
CAMSHAFT_API camshaft_status camshaft_refitter_set(camshaft_refitter* refitter, const char* name,
                                                   const camshaft_tensor* tensor);
/* The same for every initializer of a model (.onnx) that the engine has, or for all tensors of a file
 * (.safetensors, .npz). */
CAMSHAFT_API camshaft_status camshaft_refitter_set_file(camshaft_refitter* refitter, const char* path);
/* The same for an adapter that the engine was built with (the option lora), from another file: its numbers take the
 * place of all of that adapter's. It may update what the engine's adapters did when it was built, in ranks up to
 * theirs. */
CAMSHAFT_API camshaft_status camshaft_refitter_set_lora(camshaft_refitter* refitter, const char* adapter,
                                                        const char* path);
/* Gives the engine what is set, computed on so many threads (0: one for each core), and forgets it. The engine is as it
 * was when this fails. Contexts take the new weights with their next run, and one that runs meanwhile ends on the old
 * ones; what was enqueued on a GPU does, too. Nothing is verified. */
CAMSHAFT_API camshaft_status camshaft_refitter_refit(camshaft_refitter* refitter, int32_t threads);

/* The weights of an ONNX model in memory, in the order of the names by which camshaft_refitter_set knows them: its
 * initializers, what its Constant nodes have as weights, and those of branches and loops. `folder` (may be null) is
 * where external data lies; `names` (null: all) says which ones to read. The model must outlive them. */
CAMSHAFT_API camshaft_status camshaft_model_weights(const void* model, size_t bytes, const char* folder,
                                                    const char* const* names, size_t name_count,
                                                    camshaft_tensors** weights);

/* ---- Running ---- */

/* Memory and threads for one run at a time; keeps its engine. Contexts are independent: use one a thread. */
typedef struct camshaft_context camshaft_context;
/* `options` may be null. */
CAMSHAFT_API camshaft_status camshaft_context_create(const camshaft_engine* engine, const camshaft_options* options,
                                                     camshaft_context** context);
/* Waits for a run that was started. */
CAMSHAFT_API void camshaft_context_free(camshaft_context* context);
/* Needed once for inputs with dynamic sizes, and again whenever they change. */
CAMSHAFT_API camshaft_status camshaft_context_set_input_shape(camshaft_context* context, const char* name, size_t rank,
                                                              const int64_t* dims);
/* Binds a tensor's memory as an input, without a copy, and sets the input's shape; it stays valid and unchanged during
 * runs. Strings, sequences, optionals and maps are copied; an optional is also given as the value that it has. */
CAMSHAFT_API camshaft_status camshaft_context_set_input(camshaft_context* context, const char* name,
                                                        const camshaft_tensor* tensor);
/* The same for memory alone, where the shape is set. */
CAMSHAFT_API camshaft_status camshaft_context_bind_input(camshaft_context* context, const char* name, const void* data,
                                                         size_t bytes, camshaft_device device);
/* Binds the caller's memory as an output; a run fails if it turns out too small, or overlaps other bound memory. An
 * output that has an `aliased_input` may begin where that does: a run then updates it in place. Outputs that are not
 * bound are kept by the context; null unbinds, and `device` then says where the context keeps the output. */
CAMSHAFT_API camshaft_status camshaft_context_bind_output(camshaft_context* context, const char* name, void* data,
                                                          size_t bytes, camshaft_device device);
/* The shape that an output will have for the shapes of the inputs: `rank` sizes, of which the first `capacity` are
 * written to `dims`. */
CAMSHAFT_API camshaft_status camshaft_context_output_shape(camshaft_context* context, const char* name, size_t capacity,
                                                           int64_t* dims, size_t* rank);
/* The same of the largest shape that it can have, where the output's own depends on the data. */
CAMSHAFT_API camshaft_status camshaft_context_largest_output_shape(camshaft_context* context, const char* name,
                                                                   size_t capacity, int64_t* dims, size_t* rank);
/* Computes all outputs and waits for them. */
CAMSHAFT_API camshaft_status camshaft_context_run(camshaft_context* context);
/* Puts a run into a CUDA stream (null: the default one) and returns; see Context::enqueue in camshaft/context.hpp. */
CAMSHAFT_API camshaft_status camshaft_context_enqueue(camshaft_context* context, void* stream);
/* The same in the stream of the context's own that camshaft_context_copy uses, too. */
CAMSHAFT_API camshaft_status camshaft_context_start(camshaft_context* context);
/* Waits for the runs that were enqueued or started. */
CAMSHAFT_API camshaft_status camshaft_context_synchronize(camshaft_context* context);
/* Waits for what is in front of the run that was enqueued or started last, copies among it, and not for that run. */
CAMSHAFT_API camshaft_status camshaft_context_synchronize_previous(camshaft_context* context);
/* Copies bytes between the host's memory and that of the GPU that the engine runs on, in either direction or within one
 * of both, behind the runs that were enqueued and in front of those that follow. Returns at once where the host's
 * memory is of camshaft_tensor_create_pinned: what is read there must stay, and what is written there is seen, until
 * and from when a later run or camshaft_context_synchronize() has been waited for. */
CAMSHAFT_API camshaft_status camshaft_context_copy(camshaft_context* context, void* to, camshaft_device to_device,
                                                   const void* from, camshaft_device from_device, size_t bytes);
/* Called on a thread of the context with the run's status; camshaft_error_message() is that run's there. It must not
 * free the context; it may start the next run. */
typedef void (*camshaft_completion_function)(void* user, camshaft_status status);
CAMSHAFT_API camshaft_status camshaft_context_run_async(camshaft_context* context,
                                                        camshaft_completion_function completion, void* user);
/* Looked at between layers, and in long ones. */
CAMSHAFT_API camshaft_status camshaft_context_set_cancellation(camshaft_context* context,
                                                               const camshaft_cancellation* cancellation);
/* What ranks meet over in their runs: engines of one model that run at the same time, each on a thread or in a process
 * of its own. A rank that fails, leaves, dies or does not come within `timeout` seconds (0: 300) ends it: CAMSHAFT_IO
 * for all, then and later. */
typedef struct camshaft_communicator camshaft_communicator;
/* For threads of this process: `communicators` has room for one of each of `size` ranks. */
CAMSHAFT_API camshaft_status camshaft_communicators_create(int32_t size, double timeout,
                                                           camshaft_communicator** communicators);
/* For processes of one machine and user: waits until `size` of them, one of each rank, have named the same, a file name
 * without folders, which is free again then. */
CAMSHAFT_API camshaft_status camshaft_communicator_join(const char* name, int32_t rank, int32_t size, double timeout,
                                                        camshaft_communicator** communicator);
/* The same by the variables RANK, WORLD_SIZE and MASTER_PORT, which torchrun sets. */
CAMSHAFT_API camshaft_status camshaft_communicator_from_environment(double timeout,
                                                                    camshaft_communicator** communicator);
/* Both, until they are cancelled, which gives the rank back: where `name` is null the environment says it, the rank and
 * the size. `cancellation` may be null. */
CAMSHAFT_API camshaft_status camshaft_communicator_join_cancellable(const char* name, int32_t rank, int32_t size,
                                                                    double timeout,
                                                                    const camshaft_cancellation* cancellation,
                                                                    camshaft_communicator** communicator);
/* Contexts that it was set on keep it. */
CAMSHAFT_API void camshaft_communicator_free(camshaft_communicator* communicator);
CAMSHAFT_API int32_t camshaft_communicator_rank(const camshaft_communicator* communicator);
CAMSHAFT_API int32_t camshaft_communicator_size(const camshaft_communicator* communicator);
/* The root's bytes for all ranks, which call it alike; waits as long as the others live. */
CAMSHAFT_API camshaft_status camshaft_communicator_broadcast(camshaft_communicator* communicator, int32_t root,
                                                             void* data, size_t bytes);
/* Ends it, for all ranks, with that message. Any thread may. */
CAMSHAFT_API camshaft_status camshaft_communicator_abort(camshaft_communicator* communicator, const char* why);
/* For an engine of one of several ranks; null takes it away. Without one such an engine does not run. */
CAMSHAFT_API camshaft_status camshaft_context_set_communicator(camshaft_context* context,
                                                               const camshaft_communicator* communicator);
/* The result of the last run, in memory of the context's or of what was bound; valid until the next run. */
CAMSHAFT_API camshaft_status camshaft_context_output(const camshaft_context* context, const char* name,
                                                     camshaft_tensor** output);
/* Called with a tensor right after it was computed, in every run; a result other than 0 ends the run with
 * CAMSHAFT_CANCELLED. The tensor is the library's. Null removes the tap. */
typedef int32_t (*camshaft_tap_function)(void* user, const camshaft_tensor* tensor);
CAMSHAFT_API camshaft_status camshaft_context_set_tap(camshaft_context* context, const char* tensor,
                                                      camshaft_tap_function tap, void* user);
/* Bytes of intermediate memory in use. */
CAMSHAFT_API size_t camshaft_context_memory_bytes(const camshaft_context* context);

/* Times of layers, added up over the runs of the context that it is set on. */
typedef struct camshaft_profiler camshaft_profiler;
CAMSHAFT_API camshaft_status camshaft_profiler_create(camshaft_profiler** profiler);
CAMSHAFT_API void camshaft_profiler_reset(camshaft_profiler* profiler);
/* [{name, op, tactic, sources, seconds, runs, at_binding (runs in the first run with a set of shapes alone)}] in
 * execution order. */
CAMSHAFT_API camshaft_status camshaft_profiler_layers(const camshaft_profiler* profiler, camshaft_record** layers);
/* Keeps when each layer began in the next runs, so many at most (0: none, as at the start), instead of those kept
 * before. */
CAMSHAFT_API camshaft_status camshaft_profiler_keep_runs(camshaft_profiler* profiler, int64_t most);
/* Of the runs that were kept, in their order: [{start, seconds, thread (of the host, by the system's number), layers:
 * [{layer (its place in camshaft_engine_layers), device, start, seconds}]}], starts in seconds since
 * camshaft_profiler_keep_runs. Layers on the host are the run's thread's, with those that help it; layers on a GPU the
 * run's stream's, within the microseconds that tell one clock from the other. */
CAMSHAFT_API camshaft_status camshaft_profiler_runs(const camshaft_profiler* profiler, camshaft_record** runs);
CAMSHAFT_API void camshaft_profiler_free(camshaft_profiler* profiler);
/* Null stops. The profiler must outlive the runs. */
CAMSHAFT_API camshaft_status camshaft_context_set_profiler(camshaft_context* context, camshaft_profiler* profiler);

/* ---- Calibrating: the ranges of tensors that int8 needs ---- */

/* Adds the next batch of data to `batch`, a tensor for each of the model's inputs: 1; 0: there is no more. Anything
 * else ends the calibration with CAMSHAFT_CANCELLED. `inputs` says what the model takes, as camshaft_engine_info does.
 * The tensors' memory must stay valid until the next call, or until the calibration is done. */
typedef int32_t (*camshaft_batch_function)(void* user, const camshaft_record* inputs, camshaft_tensors* batch);
/* Runs a model in fp32 on batches of data, and chooses a range for each tensor that a build with int8 needs one of.
 * `options` (CAMSHAFT_CALIBRATION) may be null. `output`, where it is not null, is the file that the ranges are written
 * to, whole or not at all. `report`, where it is not null, gets {method, tensors: [{name, min, max (what is outside is
 * clipped; null where no number was finite), seen_min, seen_max, count, zeros, nans, infinities}], batches, samples,
 * seconds_build, seconds_data, seconds_run, seconds_ranges, warnings: [text]}. */
CAMSHAFT_API camshaft_status camshaft_calibrate_file(const char* path, const camshaft_options* options,
                                                     camshaft_batch_function next, void* user, const char* output,
                                                     camshaft_record** report);
/* What is in such a file, or in one of TensorRT's: {method, tensors: [{name, min, max}]}. */
CAMSHAFT_API camshaft_status camshaft_calibration_read(const char* path, camshaft_record** calibration);
/* The pixels of a picture (BMP, JPEG, PNG, PNM or WebP): u8 [height, width, 3] in the order red, green, blue, or
 * [height, width, 1] of gray. Transparency is dropped. */
CAMSHAFT_API camshaft_status camshaft_picture_decode(const void* data, size_t bytes, camshaft_tensor** pixels);

/* ---- Models ---- */

/* Writes a model in canonical form: constants and shape arithmetic folded, what changes nothing removed, in ONNX's own
 * operators. Profiles of the options fix the sizes that all of them give; an engine of the new model is verified
 * against the old one as builds are, unless "verify" is off, and nothing is written where that fails. `external_data`,
 * where it is not 0, puts tensors of at least 1 KiB into the file "<output>.data"; models above 2 GiB always do so.
 * `report`, where it is not null: {nodes_before, nodes, bytes_before, bytes, opset_before, opset, verification,
 * samples, not_verified}, also where verification fails. */
CAMSHAFT_API camshaft_status camshaft_simplify_file(const char* path, const char* output,
                                                    const camshaft_options* options, int32_t external_data,
                                                    camshaft_record** report);
/* Writes a model with QuantizeLinear and DequantizeLinear around what can be computed in int8, by the ranges of the
 * option "calibration", which must be given: weights are initializers of i8, all else is as camshaft_simplify_file
 * writes it. With the option "fp8" they and activations are f8e4m3, whether the device has products of them or not.
 * "layer-precisions" and "precision-constraints" say what stays in floating point; other precisions are of no effect.
 * Results of convolutions that have ranges (the option "results" of a calibration) are in steps, too, which ONNX
 * Runtime needs to compute those convolutions on integers. Verified is that the file computes what was quantised, not
 * how far that is from the model before. `report`: as that of camshaft_simplify_file, with quantized_layers as of a
 * build, results_in_steps (how many) and results_without_range: [name]. */
CAMSHAFT_API camshaft_status camshaft_quantize_file(const char* path, const char* output,
                                                    const camshaft_options* options, int32_t external_data,
                                                    camshaft_record** report);

/* ---- What is right, and what is to blame ---- */

/* The plain evaluation of a model, by which builds are judged. `noise` moves every operator's result by a random part
 * of itself up to that size; 0 for none. `threads`: 0 for one for each core that the process may use. */
CAMSHAFT_API camshaft_status camshaft_evaluate_file(const char* path, const camshaft_tensors* inputs, int32_t threads,
                                                    double noise, uint64_t noise_seed, camshaft_tensors** outputs);
/* How far a tensor is from another one, as an entry of a report's `verification`. */
CAMSHAFT_API camshaft_status camshaft_compare(const char* name, const camshaft_tensor* expected,
                                              const camshaft_tensor* actual, double tolerance, camshaft_record** error);
/* Whether a part of a model goes wrong as the whole does: 1 or 0; anything else ends the search with
 * CAMSHAFT_CANCELLED. */
typedef int32_t (*camshaft_judge_function)(void* user, const void* model, size_t bytes, const camshaft_tensors* inputs);
/* The smallest part of a model that `judge` still finds wrong, on the inputs that a build with these options is
 * verified on: its bytes (free them with camshaft_free), its inputs, and how many nodes are left, of how many. Fails
 * with CAMSHAFT_INVALID_ARGUMENT when the whole model is not wrong. */
CAMSHAFT_API camshaft_status camshaft_reduce_file(const char* path, const camshaft_options* options,
                                                  camshaft_judge_function judge, void* user, void** model,
                                                  size_t* bytes, camshaft_tensors** inputs, camshaft_record** counts);

/* ---- What there is ---- */

/* [{domain, operator, since}] */
CAMSHAFT_API camshaft_status camshaft_list_operators(camshaft_record** operators);
/* Cores that the process may use: its affinity and the CPU quota of its control group. */
CAMSHAFT_API int32_t camshaft_available_cores(void);
/* [{kind, device ("cpu", "cuda:1"), name, isa, cores, memory_bytes, warning, …}], the host first. Of GPUs that cannot
 * be used, `warning` says why; where there is none, the last entry has the kind "cuda", no name, and the reason.
 * `measure_threads`: also measure what the host does at most with so many threads; 0: do not. */
CAMSHAFT_API camshaft_status camshaft_list_devices(int32_t measure_threads, camshaft_record** devices);

#ifdef __cplusplus
}
#endif

#endif
