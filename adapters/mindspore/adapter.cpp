#include "adapter.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>

#include "file_path.h"
#include "memory_type.h"

namespace sonde_mindspore {
namespace {

std::atomic<const struct sonde_api*> g_engine{nullptr};
std::atomic<bool> g_reads_before{false};
std::atomic<bool> g_pynative{false};      // the mode
std::atomic<bool> g_pynative_ran{false};  // an operator in it

struct Run {
  std::string host, command, directory;
  std::uint32_t device = 0, world_size = 1;
  std::atomic<bool> reported{false};
};
Run& g_run = *new Run;  // leaked: threads of MindSpore may outlive the statics

struct ElementType {
  sonde_dtype dtype;
  std::uint8_t bytes;
};
// mindspore::TypeId, from include/mindspore/core/include/mindapi/base/type_id.h in the wheels of 2.7 and 2.10, from
// kNumberTypeBool on. Memory of types without a size (Int, UInt, Float, Complex) and of HiFloat8 cannot be read.
constexpr int kFirstTypeId = 30;
constexpr std::array<ElementType, 23> kTypes = {{
    {SONDE_DTYPE_BOOL8, 1},     {SONDE_DTYPE_UNDEFINED, 0},     {SONDE_DTYPE_INT8, 1},
    {SONDE_DTYPE_INT16, 2},     {SONDE_DTYPE_INT32, 4},         {SONDE_DTYPE_INT64, 8},
    {SONDE_DTYPE_UNDEFINED, 0}, {SONDE_DTYPE_UINT8, 1},         {SONDE_DTYPE_UINT16, 2},
    {SONDE_DTYPE_UINT32, 4},    {SONDE_DTYPE_UINT64, 8},        {SONDE_DTYPE_UNDEFINED, 0},
    {SONDE_DTYPE_FLOAT16, 2},   {SONDE_DTYPE_FLOAT32, 4},       {SONDE_DTYPE_FLOAT64, 8},
    {SONDE_DTYPE_BFLOAT16, 2},  {SONDE_DTYPE_FLOAT8_E4M3FN, 1}, {SONDE_DTYPE_FLOAT8_E5M2, 1},
    {SONDE_DTYPE_UNDEFINED, 0}, {SONDE_DTYPE_FLOAT64, 8},       {SONDE_DTYPE_UNDEFINED, 0},
    {SONDE_DTYPE_COMPLEX64, 8}, {SONDE_DTYPE_COMPLEX128, 16},
}};

ElementType element_type(int type_id) {
  const int index = type_id - kFirstTypeId;
  const bool known = index >= 0 && index < static_cast<int>(kTypes.size());
  return known ? kTypes[static_cast<std::size_t>(index)] : ElementType{SONDE_DTYPE_UNDEFINED, 0};
}

struct Tensor {
  const void* data = nullptr;
  std::size_t bytes = 0;
  ElementType type{SONDE_DTYPE_UNDEFINED, 0};
  bool is_input = false;
  std::uint32_t slot = 0;
  std::vector<std::int64_t> shape, strides;
};

enum class Source { nothing, op, parameters };

// The current report of one thread of MindSpore: an operator, or the parameters of a step.
struct PendingOp {
  Source source = Source::nothing;
  std::string op_name, op_type;
  std::uint32_t graph = 0;
  std::uint64_t step = 0;
  bool asked = true;            // the engine was asked whether it records it
  std::vector<Tensor> tensors;  // reused: the first `count` are of this op
  std::size_t count = 0;

  bool before_kernel = false, in_kernel = false;
  bool refused = false;        // the engine does not record it
  const void* node = nullptr;  // this operator, if its inputs were reported before its kernel or it was refused
  sonde_op* open = nullptr;    // this operator, if the engine records it
  unsigned wanted = 0;         // SONDE_WANT_*
};
PendingOp& pending() {
  thread_local PendingOp mine;
  return mine;
}

// Nothing may be thrown into MindSpore: work that fails is left out.
template <typename Body>
void safely(Body body) {
  try {
    body();
  } catch (...) {
    pending().count = 0;
  }
}

sonde_named_op named(const PendingOp& of) {
  sonde_named_op op{};
  op.size = sizeof op;
  op.graph = of.graph;
  op.step = of.step;
  op.op_name = of.op_name.c_str();
  op.op_type = of.op_type.c_str();
  return op;
}

// Only the name is known before the first tensor: `Default/…/Conv2D-op0`.
std::string type_of(const std::string& op_name) {
  const std::size_t slash = op_name.rfind('/');
  const std::string last = slash == std::string::npos ? op_name : op_name.substr(slash + 1);
  return last.substr(0, last.rfind("-op"));
}

void fill(Tensor& out, const FilePath& place, const void* data, std::size_t bytes,
          const std::vector<std::int64_t>& shape, int type_id) {
  out.data = data;
  out.bytes = bytes;
  out.type = element_type(type_id);
  out.is_input = place.is_input;
  out.slot = place.slot;
  out.shape = shape;
  out.strides.resize(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    out.strides[d] = stride;
    stride *= std::max<std::int64_t>(shape[d], 1);
  }
}

// MindSpore gives every tensor memory of exactly its size. With another size, the type or the shape is not the kernel's.
bool fits(const Tensor& tensor) {
  std::uint64_t bytes = tensor.type.bytes;
  for (const std::int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) return false;
  }
  return bytes == tensor.bytes;
}

sonde_tensor view_of(const Tensor& tensor) {
  sonde_tensor out{};
  out.size = sizeof out;
  out.dtype = tensor.type.dtype;
  out.data = tensor.data;
  out.shape = tensor.shape.data();
  out.strides = tensor.strides.data();
  out.ndim = static_cast<std::uint32_t>(tensor.shape.size());
  if (tensor.type.dtype == SONDE_DTYPE_UNDEFINED) {
    out.skip = "element type not supported";
  } else if (tensor.data == nullptr) {
    out.skip = "MindSpore keeps no memory for it";
  } else if (!fits(tensor)) {
    out.skip = "the kernel has another type or shape";
  }
  return out;
}

// SONDE_WANT_*; 0: it is not recorded, and `handle` is null.
unsigned begin(const struct sonde_api& api, const PendingOp& op, sonde_op*& handle) {
  handle = nullptr;
  const sonde_named_op name = named(op);
  if (!op.asked && api.wants_named(&name) == 0) return 0;
  const unsigned wanted = api.named_op_begin(&name, &handle);
  if (wanted == 0) handle = nullptr;
  return wanted;
}

template <typename Call>
void each(const PendingOp& op, Side side, Call call) {
  for (std::size_t i = 0; i < op.count; ++i) {
    if (op.tensors[i].is_input != (side == Side::inputs)) continue;
    const sonde_tensor view = view_of(op.tensors[i]);
    call(op.tensors[i].slot, view);
  }
}

// Called after the kernel: reports the remaining tensors, and ends the op.
void finish(const struct sonde_api& api, const PendingOp& op, sonde_op* handle, unsigned wanted) {
  if ((wanted & SONDE_WANT_CHECK) != 0) {
    each(op, Side::outputs, [&](std::uint32_t, const sonde_tensor& view) { api.op_check_output(handle, &view); });
  }
  each(op, Side::inputs, [&](std::uint32_t slot, const sonde_tensor& view) { api.op_input(handle, slot, &view); });
  each(op, Side::outputs, [&](std::uint32_t slot, const sonde_tensor& view) { api.op_output(handle, slot, &view); });
  api.op_end(handle, 0);
}

void clear_open(PendingOp& op) {
  op.node = nullptr;
  op.open = nullptr;
  op.wanted = 0;
}

// All inputs are reported; the kernel runs next.
void open(const struct sonde_api& api, PendingOp& op) {
  if (op.refused) return;
  if (op.count == 0) {
    op.node = nullptr;  // everything else comes after its kernel
    return;
  }
  op.wanted = begin(api, op, op.open);
  if (op.open == nullptr) return;
  each(op, Side::inputs,
       [&](std::uint32_t slot, const sonde_tensor& view) { api.op_input_before(op.open, slot, &view); });
}

// Its outputs will not be reported.
void close_failed(PendingOp& op) {
  if (const struct sonde_api* api = engine(); api != nullptr && op.open != nullptr) {
    if ((op.wanted & SONDE_WANT_FAILURE) != 0) api->op_failed(op.open);
    api->op_end(op.open, 1);
  }
  clear_open(op);
}

// The place of the dump is known with the first tensor.
void report_run(const struct sonde_api& api, std::uint32_t rank) {
  if (g_run.reported.exchange(true)) return;
  sonde_run_info info{};
  info.size = sizeof info;
  info.rank = rank;
  info.device = g_run.device;
  std::string host = g_run.host;
  // src/dump/journal/unrecorded.h knows these words.
  if (g_pynative_ran) host.insert(std::min(host.find(','), host.size()), ", PyNative mode");
  info.host = host.c_str();
  info.command = g_run.command.c_str();
  info.world_size = g_run.world_size;
  api.set_run_info(&info);
}

}  // namespace

const struct sonde_api* engine() { return g_engine.load(std::memory_order_acquire); }

void set_engine(const struct sonde_api* api, const sonde_run_info& run, const std::string& directory) {
  g_run.host = run.host;
  g_run.command = run.command;
  g_run.directory = directory;
  g_run.device = run.device;
  g_run.world_size = run.world_size;
  g_run.reported = false;
  g_pynative_ran = false;
  g_engine.store(api, std::memory_order_release);
}

void make_directory() {
  // Makes only missing directories and changes no existing one. MindSpore reports files that it cannot write.
  std::filesystem::path made;
  for (const std::filesystem::path& part : std::filesystem::path(g_run.directory)) {
    made /= part;
    ::mkdir(made.c_str(), 0700);
  }
}

void set_pynative(bool pynative) { g_pynative = pynative; }
bool looks_for_pynative() {
  return g_pynative.load(std::memory_order_relaxed) && !g_pynative_ran.load(std::memory_order_relaxed) &&
         engine() != nullptr;
}
void says_pynative() { g_pynative_ran = true; }

void report_run() {
  if (const struct sonde_api* api = engine()) report_run(*api, 0);
}

// A kernel that launches other kernels is one operator.
bool reads_before() {
  return g_reads_before.load(std::memory_order_relaxed) && engine() != nullptr && !pending().in_kernel &&
         runs_chosen_step();
}
void set_reads_before(bool before) { g_reads_before = before; }

OpScope::OpScope(const void* node, std::uint32_t graph) {
  PendingOp& op = pending();
  op.source = Source::op;
  op.graph = graph;
  op.count = 0;
  op.refused = false;
  if (op.before_kernel) {
    op.node = node;
  } else if (op.node != node) {
    close_failed(op);
  }
}

OpScope::~OpScope() {
  PendingOp& op = pending();
  op.source = Source::nothing;
  const struct sonde_api* api = engine();
  if (api != nullptr && op.before_kernel) {
    safely([&] { open(*api, op); });
  } else if (api != nullptr && op.node != nullptr) {
    if (op.open != nullptr) finish(*api, op, op.open, op.wanted);
  } else if (api != nullptr && op.count > 0) {
    sonde_op* handle = nullptr;
    const unsigned wanted = begin(*api, op, handle);
    if (handle != nullptr) finish(*api, op, handle, wanted);
  }
  if (!op.before_kernel) clear_open(op);
  op.count = 0;
}

bool is_due(Side side) {
  const PendingOp& op = pending();
  if (op.source != Source::op || op.node == nullptr) return true;
  return op.before_kernel == (side == Side::inputs);
}

KernelRun::KernelRun() {
  close_failed(pending());  // the dumper did not report its outputs
  pending().before_kernel = true;
}

void KernelRun::begin() {
  pending().before_kernel = false;
  pending().in_kernel = true;
}

KernelRun::~KernelRun() {
  PendingOp& op = pending();
  op.before_kernel = op.in_kernel = false;
  if (failed_) close_failed(op);
}

ParameterScope::ParameterScope() { pending().source = Source::parameters; }

ParameterScope::~ParameterScope() {
  pending().source = Source::nothing;
  if (const struct sonde_api* api = engine()) api->named_step_end();
}

bool wants(const std::string& op_name, bool& is_ours) {
  PendingOp& of = pending();
  const struct sonde_api* api = engine();
  is_ours = api != nullptr && of.source != Source::nothing;
  bool wanted = false;
  if (is_ours && of.source == Source::op && of.node != nullptr && !of.before_kernel) {
    wanted = of.open != nullptr;
  } else if (is_ours) {
    safely([&] {
      of.op_name = op_name;
      of.op_type = of.source == Source::parameters ? "Parameter" : type_of(op_name);
      const sonde_named_op name = named(of);
      // The first path contains the rank, which the engine needs for its first answer.
      of.asked = g_run.reported;
      wanted = (!of.before_kernel || runs_chosen_step()) && (!of.asked || api->wants_named(&name) != 0);
      of.refused = !wanted;
    });
  }
  return wanted;
}

bool take(const std::string& path, const void* data, std::size_t bytes, const std::vector<std::int64_t>& shape,
          int type_id) {
  PendingOp& of = pending();
  const struct sonde_api* api = engine();
  if (api == nullptr || of.source == Source::nothing) return false;
  safely([&] {
    FilePath place;
    if (!parse_file_path(path, place)) return;
    of.graph = place.graph;
    of.step = place.step;
    of.op_type = place.op_type;
    report_run(*api, place.rank);
    const std::size_t index = of.source == Source::op ? of.count : 0;
    if (index == of.tensors.size()) of.tensors.emplace_back();
    fill(of.tensors[index], place, data, bytes, shape, memory_type(place.slot, type_id));
    if (of.source == Source::op) {
      ++of.count;
    } else {
      const sonde_named_op name = named(of);
      const sonde_tensor view = view_of(of.tensors[0]);
      api->named_parameter(&name, &view);
    }
  });
  return true;
}

bool wants_step(std::uint32_t step) {
  const struct sonde_api* api = engine();
  return api != nullptr && api->wants_step(step) != 0;
}

}  // namespace sonde_mindspore
