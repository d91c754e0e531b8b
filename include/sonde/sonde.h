/* The C ABI of Sonde's engine: what a host's adapter calls. Plain C; nothing is thrown or printed.
 *
 *   const struct sonde_api* api = sonde_api(SONDE_API_VERSION);
 *   if (api == NULL) return report(sonde_api_mismatch(SONDE_API_VERSION, sizeof(struct sonde_api)));
 *   api->start(NULL, message, sizeof message);            the configuration that SONDE_CONFIG names
 *   for each step of a training:
 *     api->root_forward(1, 1, 1);                         the step begins
 *     for each operator:
 *       if (api->op_begin(site, SONDE_GRAPH_TRAINING, 0, &op) != 0) {      site: from api->site(), once per place
 *         ... the operator runs ...
 *         api->op_mutated(op, output.storage);
 *         api->op_input(op, 0, &input);
 *         api->op_output(op, 0, &output);
 *         api->op_end(op, 0);
 *       }
 *     api->optimizer_end();                               the parameters are updated: the next forward is another step
 *   api->stop(message, sizeof message);                   the closing line: what was recorded, and where
 *
 * An inference calls root_forward(1, 0, 0) at each of its steps, gives op_begin SONDE_GRAPH_EVALUATION, and calls no
 * optimizer_end. examples/c/mlp.c is a whole program. Link with -lsonde; pkg-config and CMake's find_package know the package sonde.
 *
 * There is one session per process. Without one every function may be called, does nothing and answers 0: a program
 * needs no second way for runs that are not recorded. Functions marked "hot" are called per operator, on the host's
 * threads, and never wait for the disk unless the plan's budget is full and the plan says to wait.
 *
 * Errors. A function with an int says in its comment how it fails. All others report nothing at once: the recording ends,
 * the program goes on, and take_failure gives one line. Texts are UTF-8; a text that does not fit its buffer is cut, and a
 * null buffer of 0 bytes is allowed.
 *
 * Lifetime. Everything that a pointer names belongs to the caller and is read, or copied, before the call returns: tensors,
 * shapes, strides, names. The exceptions are `skip`, a static text, and the functions of sonde_pool. The engine keeps no
 * pointer to a tensor's memory after the call; the host reads memory of devices (sonde_devices). An op is valid from op_begin to op_end.
 *
 * Threads. Any thread may call any function at any time. An op belongs to the thread that began it.
 *
 * Orders of calls. `*`: any number of times, `?`: once or not at all, `|`: one of them, `( )`: together.
 *
 *   a clocked host (PyTorch): it reports forwards and optimizer steps, and the engine finds the steps
 *
 *     start -> set_run_info* -> ( clock | names | memory | op )* -> stop
 *
 *     clock   root_forward, quiet_forward, optimizer_end, scaler_update, manual_step, autograd_started, modules_exist,
 *             set_recording, set_step, step_requests, step_over, capture
 *     names   site, source_text, name_tensor, flag_type; a site before the ops that name it
 *     memory  storage_changed, storages_freed, ops_forgotten
 *     op      op_begin -> op_attributes? -> op_input_before* -> [the kernel runs] -> op_call_number? -> op_mutated*
 *               -> ( op_check_output* | op_failed )? -> op_input* -> op_output* -> op_watched*
 *               -> op_end | op_defer
 *             A compiled graph: op_input_of takes the place of op_input, and op_keep comes before op_end. At its end:
 *             op_result_at for each result that lies elsewhere.
 *             After op_defer, at any time: op_mutated* -> op_input* -> op_output* -> op_complete. Ops of one thread nest:
 *             the one that began last ends first. Nothing follows an op_begin that answered 0.
 *
 *   a naming host (MindSpore): it names its operators and counts its steps
 *
 *     start -> host_settings -> set_run_info* -> step* -> stop
 *
 *     step    wants_step -> ( named op | named parameter | flag_scope )* -> named_step_end
 *     named op         wants_named? -> named_op_begin -> as after op_begin, without op_attributes and op_defer
 *     named parameter  wants_named? -> named_parameter
 *
 *   the life cycle of CANN, which takes the place of start and stop
 *
 *     sonde_init_dump -> ( sonde_set_dump -> as after start )? -> sonde_finalize_dump, and again from the beginning
 *
 * active, records_exceptions, has_ring, take_failure, capture, records_graph, site_wants and op_replaced may be asked at any
 * time, and set_pool, set_devices, write_ring and the functions of devices may be called; forked_child is called in the child.
 *
 * Versions. SONDE_API_VERSION moves when something that exists gets another meaning or another place. Within a version
 * structs and the function table only grow, at their end:
 *
 *   structs    The host sets `size` to the sizeof of its own header. The engine reads min(size, its own sizeof) bytes. A
 *              field that the host does not have is 0, which means "unknown" or "none" in every field after the line
 *              "may be missing". A struct that ends before that line ends the recording, and take_failure says so.
 *              A field that is added never lies where the struct had padding.
 *              sonde_source_line and sonde_attribute have no `size`, since they are passed as arrays: they never grow.
 *   the table  An adapter takes a table whose `size` is at least the sizeof of its own header. `size`, `version`,
 *              `engine` and `mismatch` are in their place in every version from 2 on.
 *
 * Fields have a fixed width, since C does not say how wide an enum is; a comment names the enum.
 */
#ifndef SONDE_SONDE_H_
#define SONDE_SONDE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SONDE_API_VERSION 2u
#ifndef SONDE_EXPORT
#define SONDE_EXPORT __attribute__((visibility("default")))
#endif

/* Element types. The numbers are also in files of dumps: new ones are appended, none changes. */
enum sonde_dtype {
  SONDE_DTYPE_UNDEFINED = 0, /* its elements cannot be read */
  SONDE_DTYPE_BOOL8 = 1,
  SONDE_DTYPE_INT8 = 2,
  SONDE_DTYPE_INT16 = 3,
  SONDE_DTYPE_INT32 = 4,
  SONDE_DTYPE_INT64 = 5,
  SONDE_DTYPE_UINT8 = 6,
  SONDE_DTYPE_UINT16 = 7,
  SONDE_DTYPE_UINT32 = 8,
  SONDE_DTYPE_UINT64 = 9,
  SONDE_DTYPE_FLOAT16 = 10,
  SONDE_DTYPE_FLOAT32 = 11,
  SONDE_DTYPE_FLOAT64 = 12,
  SONDE_DTYPE_BFLOAT16 = 13,
  SONDE_DTYPE_FLOAT8_E4M3FN = 14,
  SONDE_DTYPE_FLOAT8_E5M2 = 15,
  SONDE_DTYPE_FLOAT8_E4M3FNUZ = 16,
  SONDE_DTYPE_FLOAT8_E5M2FNUZ = 17,
  SONDE_DTYPE_FLOAT8_E8M0FNU = 18,
  SONDE_DTYPE_COMPLEX32 = 19,
  SONDE_DTYPE_COMPLEX64 = 20,
  SONDE_DTYPE_COMPLEX128 = 21,
  SONDE_DTYPE_QINT8 = 22, /* quantized: the codes are recorded, not the dequantized values */
  SONDE_DTYPE_QUINT8 = 23,
  SONDE_DTYPE_QINT32 = 24
};

enum sonde_device {
  SONDE_DEVICE_CPU = 0, /* host memory */
  SONDE_DEVICE_CUDA = 1,
  SONDE_DEVICE_OTHER = 255
};

enum sonde_phase {
  SONDE_PHASE_FORWARD = 0,
  SONDE_PHASE_BACKWARD = 1,
  SONDE_PHASE_OPTIMIZER = 2,
  SONDE_PHASE_OUTSIDE = 3,  /* not inside any module */
  SONDE_PHASE_RECOMPUTE = 4 /* a forward run again inside backward */
};

/* sonde_tensor.flags */
#define SONDE_TENSOR_CONJUGATE 1u
#define SONDE_TENSOR_NEGATIVE 2u
#define SONDE_TENSOR_FOREIGN 4u        /* memory owned by somebody else (NumPy, DLPack): may change unseen */
#define SONDE_TENSOR_CONSTANT 8u       /* a number in the user's code, wrapped as a tensor */
#define SONDE_TENSOR_UNINITIALISED 16u /* fresh memory: its bytes mean nothing until an op writes it */
#define SONDE_TENSOR_OBSERVED 32u      /* with FOREIGN: what was never written by an op is fresh memory all the same */
#define SONDE_TENSOR_SETTLED 64u /* name_tensor: its `writer` counts in optimizers alone, before it is another value */

/* A tensor of the host, described for the length of one call. All fields that are not known stay 0.
 *
 * `storage` joins operators to a graph: an input comes from the operator that called op_mutated for its storage last. It
 * also shows which tensors are equal: memory that was not written since is read once. A tensor whose storage is 0 has no
 * origin, and is read each time. */
struct sonde_tensor {
  uint32_t size;          /* sizeof(struct sonde_tensor) */
  uint32_t dtype;         /* enum sonde_dtype */
  const void* data;       /* first element; null only if there is none */
  const int64_t* shape;   /* `ndim` numbers of elements, 0 or more; null if ndim is 0 */
  const int64_t* strides; /* `ndim` distances in elements, 0 or more; null: C order, the last dimension is dense */
  uint32_t ndim;          /* 0: one element without dimensions */
  uint32_t device;        /* enum sonde_device; what this build cannot read is skipped and counted */
  /* --- may be missing --- */
  uint32_t flags;           /* SONDE_TENSOR_* */
  uint64_t storage;         /* identity of the memory block, never reused while the process lives; 0: unknown */
  const void* storage_data; /* where that block begins; null: unknown */
  uint64_t storage_bytes;   /* its length */
  const char* skip;         /* static text: why this tensor cannot be read; null when it can */
  uint64_t object;    /* the host's tensor object, while it lives: distinguishes views of one memory; 0: unknown */
  const void* handle; /* memory of a device: the host's own, for sonde_devices.read; null: the host cannot read it */
  /* The part of a distributed tensor that it is: "Shard(0) of (16, 8) on tp=2, from (8, 0)"; null: none. */
  const char* placement;
  /* Several ranks have it, and this one writes it if the plan lets one write: 1 + its number; 0: it is this rank's own. */
  uint32_t writer;
};

/* A place in the user's program. Lines count from 1, columns (bytes) from 0; an end of 0: unknown. */
struct sonde_source_line {
  uint32_t line, column, end_line, end_column; /* the end exclusive */
  const char* file;
  const char* function;
};

/* sonde_site.flags */
#define SONDE_SITE_FLAGGED 1u /* set_dump was called for a module or function around it, or a dump scope is open */

/* A place in the program that runs an operator. Its ops get their names from it: type "Conv2D" in scope
 * "network-Net/conv1-Conv2d" gives `Default/network-Net/conv1-Conv2d/Conv2D-op0`, the next one of the step `…-op1`. */
struct sonde_site {
  uint32_t size;         /* sizeof(struct sonde_site) */
  uint32_t phase;        /* enum sonde_phase */
  uint32_t forward_site; /* backward: id of the forward op's site, whose scope counts; 0 when unknown */
  uint32_t trace_count;  /* of `trace`; 0: the place has no line */
  const char* op_type;   /* "Conv2D", "matmul" */
  /* --- may be missing --- */
  const char* scope;                     /* "network-AlexNet/features/0-Conv2d"; "" or null: outside */
  const struct sonde_source_line* trace; /* the callers, innermost first; the first is the op's line */
  uint32_t flags;                        /* SONDE_SITE_* */
};

enum sonde_summary_kind {
  SONDE_SUMMARY_OUTPUT = 0,   /* of a module */
  SONDE_SUMMARY_GRADIENT = 1, /* of a parameter, when the optimizer reads it */
  SONDE_SUMMARY_LOSS = 2,
};
/* The tensors of a step that are wanted. */
enum sonde_summary_step {
  SONDE_SUMMARY_NOTHING = 0,
  SONDE_SUMMARY_ALL = 1,
  SONDE_SUMMARY_LOSS_ALONE = 2, /* the time of max_overhead is used up */
};

enum sonde_attribute_kind {
  SONDE_ATTRIBUTE_NONE = 0,
  SONDE_ATTRIBUTE_BOOLEAN = 1,
  SONDE_ATTRIBUTE_INTEGER = 2,
  SONDE_ATTRIBUTE_REAL = 3,
  SONDE_ATTRIBUTE_TEXT = 4,
  SONDE_ATTRIBUTE_BOOLEANS = 5,
  SONDE_ATTRIBUTE_INTEGERS = 6,
  SONDE_ATTRIBUTE_REALS = 7
};

/* An argument of an op that is not a tensor, by its name in the op's schema. */
struct sonde_attribute {
  const char* name;
  uint32_t kind;           /* enum sonde_attribute_kind; it decides which of the three pointers is read */
  uint32_t count;          /* elements of a list; 1 for one value */
  const int64_t* integers; /* of booleans and integers */
  const double* reals;
  const char* text;
};

/* The answer of op_begin, a combination of these. 0: the op is not recorded at all (outside the chosen steps). */
#define SONDE_WANT_STRUCTURE 1u /* call tensor functions for identity; no bytes will be read */
#define SONDE_WANT_INPUTS 2u
#define SONDE_WANT_OUTPUTS 4u
#define SONDE_WANT_ATTRIBUTES 8u /* call op_attributes: these are seen for the first time */
#define SONDE_WANT_CHECK 16u     /* call op_check_output with every output: its values decide the tensors to record */
#define SONDE_WANT_FAILURE 32u   /* an op that throws is wanted: op_failed before op_input; op_end may take a while */
#define SONDE_WANT_WEAK_REF 64u  /* its outputs are watched: remember their memory, without keeping them alive */
#define SONDE_WANT_WATCHED 128u  /* after op_output: op_watched with every output remembered so */
#define SONDE_WANT_MODULES 256u  /* call modules_exist, within this op or before the next one */

/* Says whether the host's operator callbacks need to run. Returned by every clock function. */
enum sonde_capture {
  SONDE_CAPTURE_OFF = 0,
  SONDE_CAPTURE_ON = 1,
  SONDE_CAPTURE_OVER = 2 /* off, and the plan wants the program to end here: the last chosen step is over */
};

/* The graph of an op: that of the root forward it runs in, that of backward and optimizer (training), or, outside
 * every root, the graph that the step clock gives. */
enum sonde_graph {
  SONDE_GRAPH_TRAINING = 0,
  SONDE_GRAPH_EVALUATION = 1,
  SONDE_GRAPH_OUTSIDE_GRAD = 2,
  SONDE_GRAPH_OUTSIDE_NO_GRAD = 3
};

/* A forward without gradients: of evaluation, or, as a reference model's, of a training step. */
struct sonde_quiet_forward {
  uint32_t size;
  int32_t optimizer_alive;
  uint64_t root; /* the same number for the same module */
  /* --- may be missing --- */
  int32_t trained;   /* some optimizer trains a parameter of it */
  int32_t evaluates; /* the model that trains has changed its mode since, or is this one, not in training mode */
};

struct sonde_op; /* one op in flight on one thread */

/* An operator, parameter or tensor under a naming host's own name, in the host's own step. */
struct sonde_named_op {
  uint32_t size;
  uint32_t graph;      /* the host's number of its graph */
  uint64_t step;       /* of that graph's step, by the host's count */
  const char* op_name; /* "Default/network-LeNet5/conv1-Conv2d/Conv2D-op0"; a parameter's: "conv1.weight" */
  const char* op_type; /* "Conv2D"; "Parameter" */
};

/* The settings of a naming host's own dumper, which finds the operators and writes the graphs. The host sets `size`,
 * the engine the rest, up to that size. */
struct sonde_host_settings {
  uint32_t size;
  uint64_t first_step;   /* the number of its first step */
  uint32_t inputs_after; /* read inputs after their operator, as the host's dumper does */
  char path[4096];       /* where its graphs and execution orders belong */
  char net_name[256];
};

/* The host's own threads, which wait between two operators: the engine borrows them to read large tensors, and has none
 * of its own for that. */
struct sonde_pool {
  uint32_t size;
  uint32_t reserved;
  /* The threads that the calling thread may use now, itself included; 1 inside a parallel region of the host. */
  uint32_t (*threads)(void);
  /* Runs piece(context, i) for each i below `pieces`, each once, on the calling thread and others; returns when all have
   * ended. `piece` does not throw, and calls nothing of the host. */
  void (*run)(uint32_t pieces, void (*piece)(void* context, uint32_t index), void* context);
};

/* Parts of a tensor in a device's memory to read, a combination of these. */
#define SONDE_READ_BYTES 1u      /* its elements in C order, the lazy bits resolved, in host memory */
#define SONDE_READ_STATISTICS 2u /* its statistics, computed on the device */

/* One tensor to read from a device. The host begins, and does not wait: device_read_done() brings the result. */
struct sonde_device_read {
  uint32_t size;
  uint32_t wants;  /* SONDE_READ_* */
  uint64_t ticket; /* for device_read_done */
  const struct sonde_tensor*
      tensor;        /* for the length of the call; its handle is that of the host's tensor, whose memory it lies in */
  uint64_t elements; /* only the first elements in C order; 0: all */
  uint32_t item_bytes; /* of one element */
  uint32_t reserved;
  void* bytes; /* SONDE_READ_BYTES: where they will be, from take(); with its owner */
  void* owner;
  /* --- the host's answer --- */
  const char* why; /* static text: why something that was wanted will not be read; null if all will */
};

/* The result of a read. */
struct sonde_device_result {
  uint32_t size;
  uint32_t has;       /* SONDE_READ_* */
  const char* failed; /* static text: why something that was begun did not end; null if nothing failed */
  uint64_t nan_count, positive_inf_count, negative_inf_count;
  uint64_t positive_count, negative_count, zero_count; /* infinities included */
  double max, min, sum, sum_squares;                   /* over the finite elements */
};

/* Systems whose devices the engine's own kernel can read. */
enum sonde_runtime {
  SONDE_RUNTIME_CUDA = 1, /* of NVIDIA */
  SONDE_RUNTIME_ROCM = 2  /* of AMD */
};

/* A stream of such a device. */
struct sonde_device_queue {
  uint32_t size;
  uint32_t runtime; /* enum sonde_runtime */
  void* stream;     /* cudaStream_t, hipStream_t; null: the default stream */
  uint32_t device;  /* its number, as the runtime counts in this process */
};

/* The host's way to read memory of devices. */
struct sonde_devices {
  uint32_t size;
  uint32_t reserved;
  /* Begins to read, within op_input_before, op_input or op_output, on the thread that called it: SONDE_READ_* of what has
   * begun. */
  uint32_t (*read)(struct sonde_device_read* request);
  /* Host memory to which a device can copy; null: there is none, and `why` gets a static text. */
  void* (*take)(uint64_t bytes, void** owner, const char** why);
  void (*release)(void* owner); /* it is not needed any more; any thread */
  void (*drain)(void);          /* returns when device_read_done was called for every read that has begun; any thread */
};

struct sonde_run_info {
  uint32_t size;   /* sizeof(struct sonde_run_info) */
  uint32_t rank;   /* number of this process among those of one training, from 0: it names the directory `rank_0` */
  uint32_t device; /* local rank, compared with support_device */
  /* --- may be missing --- */
  const char* host; /* "torch 2.13.0+cpu, CPython 3.11.7" */
  const char* command;
  uint32_t world_size; /* processes in all; 0: one */
};

/* The rows of a request in the batch of a step: its tokens from `position` on. */
struct sonde_request {
  const char* id;    /* as the engine names it */
  uint64_t row;      /* its first row, from 0 */
  uint64_t rows;     /* their number */
  uint64_t position; /* of the first one's token in the request, from 0 */
};

struct sonde_api {
  uint32_t size;
  uint32_t version;
  const char* engine; /* the version of the library, as in `sonde --version` */
  /* sonde_api_mismatch(), for an adapter that is not linked with the library: sonde_table_mismatch() below. */
  const char* (*mismatch)(uint32_t version, uint32_t table_size);

  /* --- life ------------------------------------------------------------------------------------------------- */
  /* Reads the configuration and prepares a session. 0, or -1 with a text of all errors (and warnings) in `message`;
   * warnings alone: 0 and a text. `message` may be null. Nothing is created on disk.
   * `config_path` null: the file that SONDE_CONFIG names, else MINDSPORE_DUMP_CONFIG; 1: neither is set, and nothing will
   * be recorded. A program that does so can be started with `sonde run`. */
  int (*start)(const char* config_path, char* message, size_t message_bytes);
  /* Called once before the first recorded op: rank and the like are known only then. May be left out: rank 0. */
  void (*set_run_info)(const struct sonde_run_info* info);
  /* Flushes, closes, forgets the session. `summary` gets the closing line for the user; it is empty if `sonde run`
   * started the program, which prints the line itself. Ops that are still in flight are not recorded. */
  void (*stop)(char* summary, size_t summary_bytes);
  int (*active)(void);             /* a session exists and has not failed */
  int (*records_exceptions)(void); /* its plan asks for the operator that throws */
  void (*forked_child)(void);      /* in the child of fork(): become inert */
  /* One-line failure that was not yet reported to the user; returns 1 if there was one. */
  int (*take_failure)(char* message, size_t message_bytes);

  /* --- clock ------------------------------------------------------------------------------------------------ */
  /* A module that no other module called begins its forward. Not for forwards run inside Optimizer.step. */
  enum sonde_capture (*root_forward)(int has_parameters, int grad_enabled, int optimizer_alive);
  /* The same of a module with parameters whose gradients are off, by a host that can say whose forward it is. */
  enum sonde_capture (*quiet_forward)(const struct sonde_quiet_forward* forward);
  enum sonde_capture (*optimizer_end)(void);    /* an outermost Optimizer.step has returned */
  enum sonde_capture (*scaler_update)(void);    /* GradScaler.update: the step is over although no optimizer stepped */
  enum sonde_capture (*manual_step)(void);      /* sonde.step() */
  enum sonde_capture (*autograd_started)(void); /* an op with a gradient history ran before any root was seen */
  /* SONDE_WANT_MODULES: says if modules with parameters exist; none of them was called yet. */
  enum sonde_capture (*modules_exist)(int with_parameters);
  enum sonde_capture (*capture)(void); /* the current answer; the first call begins a manual clock's first step */
  /* From the first call on the plan's iterations do not count: all ops that run while it is on are recorded. */
  enum sonde_capture (*set_recording)(int on);
  /* The step that begins next has this number (that of every graph). */
  enum sonde_capture (*set_step)(uint64_t step);

  /* --- names ------------------------------------------------------------------------------------------------ */
  /* Interns: the same place gives the same id, from 1; 0 without a session. Ids are valid until stop(). */
  uint32_t (*site)(const struct sonde_site* site);
  /* The text of a source that has no file (a notebook's cell), or whose file must not be read: a name that comes from
   * data, such as a saved program, may be that of any file. Empty: no text is known. Before the first site that names
   * the file, and again where more is known. Every other file that a site names is copied into the dump. */
  void (*source_text)(const char* file, const char* text);
  /* `name` is the tensor `tensor` from now on: parameters, buffers ("features.0.weight"), gradients
   * ("features.0.weight.grad"), optimizer state ("exp_avg.features.0.weight"). */
  void (*name_tensor)(const char* name, const struct sonde_tensor* tensor);
  /* set_dump of an operator type (ATen's name, MindSpore's or GE's): its ops and their backward, under dump_mode 2. */
  void (*flag_type)(const char* type, int enabled);

  /* --- memory ----------------------------------------------------------------------------------------------- */
  /* Memory was written by something that is not recorded. 0: it is not known which memory. */
  void (*storage_changed)(uint64_t storage);
  /* These memory blocks were freed: they cannot be read any more. */
  void (*storages_freed)(const uint64_t* storages, size_t count);

  /* --- ops (hot) -------------------------------------------------------------------------------------------- */
  /* SONDE_WANT_*, and in `op` the op, unless the answer is 0; then the host leaves out all further calls for it.
   * attributes: a hash of the op's type and of all arguments that are not tensors; 0: it has none. */
  uint32_t (*op_begin)(uint32_t site, enum sonde_graph graph, uint64_t attributes, struct sonde_op** op);
  void (*op_attributes)(struct sonde_op* op, const struct sonde_attribute* attributes, uint32_t count);
  /* Before the kernel: arguments that the op will write, and all tensors that share their memory. */
  void (*op_input_before)(struct sonde_op* op, uint32_t slot, const struct sonde_tensor* tensor);
  /* After the kernel: the op wrote this memory block, that of a new output too. All of them before the first input and
   * output. */
  void (*op_mutated)(struct sonde_op* op, uint64_t storage);
  /* SONDE_WANT_CHECK: after op_mutated, before op_input; each output comes again with op_output. */
  void (*op_check_output)(struct sonde_op* op, const struct sonde_tensor* output);
  /* SONDE_WANT_FAILURE: the kernel threw. Before op_input; then op_end, which returns when the inputs are on disk. */
  void (*op_failed)(struct sonde_op* op);
  /* After the kernel: an argument that the op did not write. Slots count from 0, inputs and outputs each, and an argument
   * that is missing keeps its slot. The elements are read now, if the plan wants them. */
  void (*op_input)(struct sonde_op* op, uint32_t slot, const struct sonde_tensor* tensor);
  void (*op_output)(struct sonde_op* op, uint32_t slot, const struct sonde_tensor* tensor);
  /* SONDE_WANT_WEAK_REF: the number under which op_watched knows the op. */
  uint32_t (*op_watch_id)(struct sonde_op* op);
  /* SONDE_WANT_WATCHED: output `slot` of the op that op_watch_id() numbered, as it lies in memory now (or why it cannot
   * be read). 0: it is watched no longer. */
  int (*op_watched)(struct sonde_op* op, uint32_t watched, uint32_t slot, const struct sonde_tensor* tensor);
  /* failed: the kernel gave no result. `op` is invalid from here on. */
  void (*op_end)(struct sonde_op* op, int failed);
  /* Instead of op_end, for an op that goes on after it has returned (a collective): op_mutated and op_output take the
   * result, at any later time and on any thread, one at a time; then op_complete, once. op_input takes an argument that
   * had no values before (a view of what a collective writes). Never null. */
  struct sonde_op* (*op_defer)(struct sonde_op* op);
  void (*op_complete)(struct sonde_op* deferred, int failed);

  /* --- naming hosts: instead of the clock, the names and op_begin --------------------------------------------- */
  /* Says that this is such a host; before the first step. -1: the plan needs abilities that it lacks; `message` names
   * them. The graphs and execution orders under `settings` are the host's: Sonde writes none. */
  int (*host_settings)(struct sonde_host_settings* settings, char* message, size_t message_bytes);
  int (*wants_step)(uint64_t step); /* before its operators run */
  /* 0: nothing of it will be recorded, the other calls may be left out. Any thread. */
  int (*wants_named)(const struct sonde_named_op* op);
  uint32_t (*named_op_begin)(const struct sonde_named_op* named, struct sonde_op** op); /* SONDE_WANT_* */
  void (*named_parameter)(const struct sonde_named_op* named, const struct sonde_tensor* tensor);
  void (*named_step_end)(void); /* of all graphs */
  /* set_dump, under dump_mode 2: of the operators in `scope` ("Default/network-LeNet5/conv1-Conv2d") and below, and of
   * their backward; the innermost scope that was named counts. With a type: of those right in the scope of that type. */
  void (*flag_scope)(const char* scope, const char* type, int enabled);

  /* --- threads ---------------------------------------------------------------------------------------------- */
  /* Without it every tensor is read by the thread that ran its operator. The functions must stay callable while the
   * process lives; null takes them back. Results do not depend on the number of threads. At any time. */
  void (*set_pool)(const struct sonde_pool* pool);

  /* --- the ring (sonde_settings.ring) -------------------------------------------------------------------------- */
  /* Writes the steps that it holds, and returns their number when they are on disk. `why`: one line for people. -1: no
   * session runs, or its plan has no ring. Any thread. */
  int64_t (*write_ring)(const char* why);
  int (*has_ring)(void);

  /* --- compiled graphs ---------------------------------------------------------------------------------------- */
  /* Whether an op of this graph that begins now is recorded. */
  int (*records_graph)(enum sonde_graph graph);
  /* The plan can want this of the first `count` ops of a site: SONDE_WANT_INPUTS, SONDE_WANT_OUTPUTS; and
   * SONDE_WANT_CHECK, where inputs cannot be given by op_input_of, since their maker's output may not have been read.
   * Site 0: of every op; SONDE_WANT_STRUCTURE: nothing is read; 0: that depends on the op. */
  uint32_t (*site_wants)(uint32_t site, uint32_t count);
  /* After op_output: the facts about the op's outputs are kept for op_input_of. Returns its number. */
  uint64_t (*op_keep)(struct sonde_op* op);
  /* In place of op_input: the tensor is output `output` of the op that op_keep() numbered. No memory is read. */
  void (*op_input_of)(struct sonde_op* op, uint32_t slot, uint64_t maker, uint32_t output);
  void (*ops_forgotten)(const uint64_t* makers, size_t count);

  /* --- devices ------------------------------------------------------------------------------------------------ */
  /* Without it tensors of devices are skipped and counted. The functions must stay callable while the process lives. */
  void (*set_devices)(const struct sonde_devices* devices);
  /* Once for each read that has begun. Any thread. */
  void (*device_read_done)(uint64_t ticket, const struct sonde_device_result* result);
  /* For a host whose devices are CUDA's or ROCm's: the bytes that device_statistics writes for a tensor, 48 for each 8192
   * elements, begun or whole. -1: the kernel cannot read it. */
  int64_t (*device_record_bytes)(const struct sonde_tensor* tensor);
  /* Enqueues a kernel that reads the tensors once, and writes the records of one after the other to `records`, memory of
   * that device with an address that is a multiple of 16, whatever it contains. It does not wait, but the first call for a
   * device takes about a second, for the kernel is compiled there. 0; -1 with one line in `message`: the statistics must be
   * taken in another way. If the kernel cannot be used at all, each call says so, at once. */
  int (*device_statistics)(const struct sonde_device_queue* queue, const struct sonde_tensor* const* tensors,
                           uint32_t count, void* records, char* message, size_t message_bytes);
  /* The statistics of a tensor with so many elements and SONDE_TENSOR_NEGATIVE or not, from its records, in host memory:
   * sets the fields from nan_count on. They are equal to those of the same tensor in host memory, bit for bit. */
  void (*device_fold)(const void* records, uint64_t elements, uint32_t flags, struct sonde_device_result* result);

  /* --- compiled graphs -------------------------------------------------------------------------------------- */
  /* After op_end: output `output` of the op that op_keep() numbered lies in this tensor's memory now, whatever lay there
   * before. A compiler may reuse memory that it gave as the result of another op. No memory is read. */
  void (*op_result_at)(uint64_t maker, uint32_t output, const struct sonde_tensor* tensor);
  /* Ops of this site do not run: the compiler replaced them by ops of the types `by` ("mul, sum"). 1: the plan selects
   * them, by their name, whatever their number, or by their type. If nothing else matches that entry of the plan, the
   * closing line says what computes it. Site 0: whether the plan names ops at all. */
  int (*op_replaced)(uint32_t site, const char* by);

  /* --- fresh memory ------------------------------------------------------------------------------------------- */
  /* In place of op_mutated: the op wrote these elements, and nothing else of their memory block. The bytes of fresh memory
   * (SONDE_TENSOR_UNINITIALISED) that no op wrote stay without values. */
  void (*op_wrote_part)(struct sonde_op* op, const struct sonde_tensor* part);
  /* The block of this tensor is fresh memory, but for its first `kept` bytes, by no op: the program has allocated it. */
  void (*storage_allocated)(const struct sonde_tensor* tensor, uint64_t kept);

  /* --- collectives -------------------------------------------------------------------------------------------- */
  /* After the kernel, before op_end or op_defer: the op is this call of a collective of its group, counted from 1 on every
   * rank. 0: nobody counts them. */
  void (*op_call_number)(struct sonde_op* op, uint64_t number);

  /* --- engines that serve requests ---------------------------------------------------------------------------- */
  /* The step that begins next works on these requests. Requests of an earlier call are forgotten. */
  void (*step_requests)(const struct sonde_request* requests, uint32_t count);
  /* The step is over: what runs until the next one begins belongs to no step. */
  enum sonde_capture (*step_over)(void);

  /* --- a summary (sonde_settings.saved_data "summary"): instead of operators ---------------------------------- */
  int (*keeps_summary)(void);
  /* A tensor that is followed from step to step: SONDE_SUMMARY_*, the module's or parameter's name, the module's class.
   * Returns its number; UINT32_MAX: nothing is kept of it. */
  uint32_t (*summary_series)(uint32_t kind, const char* name, const char* type, const struct sonde_tensor* tensor);
  /* Its elements are read now. */
  void (*summary_tensor)(uint32_t series, const struct sonde_tensor* tensor);
  /* The step with this number begins; the host spent so long on giving the tensors of the one before. */
  enum sonde_summary_step (*summary_step)(uint64_t step, uint64_t nanoseconds);

  /* --- tensors that several ranks have (sonde_settings.replicas "first") --------------------------------------- */
  /* Whether sonde_tensor.writer is of use. */
  int (*asks_for_writers)(void);

  /* --- a summary, further -------------------------------------------------------------------------------------- */
  /* A tensor of `series` is the one that this thread gave last, as one of `earlier`, with the same elements: what is
   * known of that is taken. 0: it is not known any more, and summary_tensor must be called. */
  int (*summary_again)(uint32_t series, uint32_t earlier);

  /* Whether a writer of results that are equal on several ranks is of use now: all of them record the same step. */
  int (*shares_results)(enum sonde_graph graph);
};

/* The function table; null: this library has another version of it. */
/* The function and the struct share a name, as `struct stat` and stat() do; g++ -Wshadow would warn of it. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
SONDE_EXPORT const struct sonde_api* sonde_api(uint32_t version);
#pragma GCC diagnostic pop
/* The reason why this library does not fit an adapter that was built for this version and size of the table: one line
 * with the version found, the version expected and a cure. Null: it fits. Valid until this thread asks again. */
SONDE_EXPORT const char* sonde_api_mismatch(uint32_t version, uint32_t table_size);
/* The same, for an adapter that is given the table. A library of version 1 cannot say it itself. */
static inline const char* sonde_table_mismatch(const struct sonde_api* table) {
  if (table->version < 2u) {
    return "libsonde.so has version 1 of the C ABI, and the adapter was built for version 2 or later; install both "
           "from "
           "one version of Sonde";
  }
  return table->mismatch(SONDE_API_VERSION, (uint32_t)sizeof(struct sonde_api));
}

/* The life cycle of CANN's dump API (aclmdlInitDump, aclmdlSetDump, aclmdlFinalizeDump), its order and its codes, for
 * hosts that are written to it; the operators are still reported through sonde_api(). */
#define SONDE_SUCCESS 0
#define SONDE_ERROR_INVALID_PARAM 100000
#define SONDE_ERROR_INVALID_DUMP_CONFIG 100009
#define SONDE_ERROR_DUMP_ALREADY_RUN 100020
#define SONDE_ERROR_DUMP_NOT_RUN 100021
SONDE_EXPORT int sonde_init_dump(void);
SONDE_EXPORT int sonde_set_dump(const char* config_path);
SONDE_EXPORT int sonde_finalize_dump(void);
/* For the last of these calls: the reason of a refusal, the warnings, or the closing line. Valid until this thread asks
 * again. */
SONDE_EXPORT const char* sonde_dump_message(void);

#ifdef __cplusplus
}
#endif
#endif /* SONDE_SONDE_H_ */
