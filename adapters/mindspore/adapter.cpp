#include "adapter.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>

#include "file_path.h"
#include "sonde/dtype.h"

namespace sonde_mindspore {
namespace {

using sonde::DType;

std::atomic<const struct sonde_api*> g_engine{nullptr};

struct Run {
  std::string host, command, directory;
  std::uint32_t device = 0, world_size = 1;
  std::atomic<bool> told{false};
};
Run& g_run = *new Run;  // leaked: threads of MindSpore may outlive the statics

struct ElementType {
  DType dtype;
  std::uint8_t bytes;
};
// mindspore::TypeId, of include/mindspore/core/include/mindapi/base/type_id.h in the wheels of 2.7 and 2.10, from
// kNumberTypeBool on. Those without a size (Int, UInt, Float, Complex) and HiFloat8 name no memory that we could read.
constexpr int kFirstTypeId = 30;
constexpr std::array<ElementType, 23> kTypes = {{
    {DType::bool8, 1},         {DType::undefined, 0},   {DType::int8, 1},        {DType::int16, 2},
    {DType::int32, 4},         {DType::int64, 8},       {DType::undefined, 0},   {DType::uint8, 1},
    {DType::uint16, 2},        {DType::uint32, 4},      {DType::uint64, 8},      {DType::undefined, 0},
    {DType::float16, 2},       {DType::float32, 4},     {DType::float64, 8},     {DType::bfloat16, 2},
    {DType::float8_e4m3fn, 1}, {DType::float8_e5m2, 1}, {DType::undefined, 0},   {DType::float64, 8},
    {DType::undefined, 0},     {DType::complex64, 8},   {DType::complex128, 16},
}};

ElementType element_type(int type_id) {
  const int index = type_id - kFirstTypeId;
  const bool known = index >= 0 && index < static_cast<int>(kTypes.size());
  return known ? kTypes[static_cast<std::size_t>(index)] : ElementType{DType::undefined, 0};
}

struct Tensor {
  const void* data = nullptr;
  std::size_t bytes = 0;
  ElementType type{DType::undefined, 0};
  bool is_input = false;
  std::uint32_t slot = 0;
  std::vector<std::int64_t> shape, strides;
};

enum class Telling { nothing, op, parameters };

// What one thread of MindSpore is telling.
struct Told {
  Telling telling = Telling::nothing;
  std::string full_name, op_type;
  std::uint32_t graph = 0;
  std::uint64_t iteration = 0;
  bool asked = true;            // the engine was asked whether it wants it
  std::vector<Tensor> tensors;  // reused: the first `count` are of this op
  std::size_t count = 0;
};
Told& told() {
  thread_local Told mine;
  return mine;
}

// Nothing may be thrown into MindSpore: what we cannot do is left out.
template <typename Body>
void safely(Body body) {
  try {
    body();
  } catch (...) {
    told().count = 0;
  }
}

sonde_named_op named(const Told& of) {
  sonde_named_op op{};
  op.size = sizeof op;
  op.graph = of.graph;
  op.iteration = of.iteration;
  op.full_name = of.full_name.c_str();
  op.op_type = of.op_type.c_str();
  return op;
}

// Names are all that is known before the first tensor: `Default/…/Conv2D-op0`.
std::string type_of(const std::string& full_name) {
  const std::size_t slash = full_name.rfind('/');
  const std::string last = slash == std::string::npos ? full_name : full_name.substr(slash + 1);
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

bool fits(const Tensor& tensor) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(elements, static_cast<std::uint64_t>(size), &elements)) return false;
  }
  return elements <= tensor.bytes / tensor.type.bytes;
}

sonde_tensor view_of(const Tensor& tensor) {
  sonde_tensor out{};
  out.size = sizeof out;
  out.dtype = static_cast<std::int32_t>(tensor.type.dtype);
  out.data = tensor.data;
  out.shape = tensor.shape.data();
  out.strides = tensor.strides.data();
  out.ndim = static_cast<std::uint32_t>(tensor.shape.size());
  if (tensor.type.dtype == DType::undefined) {
    out.skip = "element type not supported";
  } else if (tensor.data == nullptr) {
    out.skip = "MindSpore keeps no memory for it";
  } else if (!fits(tensor)) {
    out.skip = "its memory is smaller than its shape";
  }
  return out;
}

void tell(const struct sonde_api& api, const Told& op) {
  sonde_op* handle = nullptr;
  const sonde_named_op name = named(op);
  if (!op.asked && api.wants_named(&name) == 0) return;
  const unsigned wanted = api.named_op_begin(&name, &handle);
  if (wanted == 0) return;
  const auto each = [&](bool inputs, auto call) {
    for (std::size_t i = 0; i < op.count; ++i) {
      if (op.tensors[i].is_input != inputs) continue;
      const sonde_tensor view = view_of(op.tensors[i]);
      call(op.tensors[i].slot, view);
    }
  };
  if ((wanted & SONDE_WANT_LOOK) != 0) {
    each(false, [&](std::uint32_t, const sonde_tensor& view) { api.op_look(handle, &view); });
  }
  each(true, [&](std::uint32_t slot, const sonde_tensor& view) { api.op_input(handle, slot, &view); });
  each(false, [&](std::uint32_t slot, const sonde_tensor& view) { api.op_output(handle, slot, &view); });
  api.op_end(handle, 0);
}

// Where the dump belongs is known with the first tensor.
void tell_run(const struct sonde_api& api, std::uint32_t rank) {
  if (g_run.told.exchange(true)) return;
  sonde_run_info info{};
  info.size = sizeof info;
  info.rank = rank;
  info.device = g_run.device;
  info.host = g_run.host.c_str();
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
  g_run.told = false;
  g_engine.store(api, std::memory_order_release);
}

void make_directory() {
  if (g_run.directory.empty() || ::access(g_run.directory.c_str(), F_OK) == 0) return;
  std::error_code ignored;  // MindSpore says what it cannot write
  std::filesystem::create_directories(g_run.directory, ignored);
  std::filesystem::permissions(g_run.directory, std::filesystem::perms::owner_all, ignored);
}

OpTold::OpTold(std::uint32_t graph) {
  Told& op = told();
  op.telling = Telling::op;
  op.graph = graph;
  op.count = 0;
}

OpTold::~OpTold() {
  Told& op = told();
  op.telling = Telling::nothing;
  const struct sonde_api* api = engine();
  if (api != nullptr && op.count > 0) safely([&] { tell(*api, op); });
  op.count = 0;
}

ParametersTold::ParametersTold() { told().telling = Telling::parameters; }

ParametersTold::~ParametersTold() {
  told().telling = Telling::nothing;
  if (const struct sonde_api* api = engine()) api->named_step_end();
}

bool wants(const std::string& full_name, bool& is_ours) {
  Told& of = told();
  const struct sonde_api* api = engine();
  is_ours = api != nullptr && of.telling != Telling::nothing;
  bool wanted = false;
  if (is_ours) {
    safely([&] {
      of.full_name = full_name;
      of.op_type = of.telling == Telling::parameters ? "Parameter" : type_of(full_name);
      const sonde_named_op name = named(of);
      // The rank is told by the first path, and the engine needs it before it can say anything.
      of.asked = g_run.told;
      wanted = !of.asked || api->wants_named(&name) != 0;
    });
  }
  return wanted;
}

bool take(const std::string& path, const void* data, std::size_t bytes, const std::vector<std::int64_t>& shape,
          int type_id) {
  Told& of = told();
  const struct sonde_api* api = engine();
  if (api == nullptr || of.telling == Telling::nothing) return false;
  safely([&] {
    FilePath place;
    if (!parse_file_path(path, place)) return;
    of.graph = place.graph;
    of.iteration = place.iteration;
    of.op_type = place.op_type;
    tell_run(*api, place.rank);
    const std::size_t index = of.telling == Telling::op ? of.count : 0;
    if (index == of.tensors.size()) of.tensors.emplace_back();
    fill(of.tensors[index], place, data, bytes, shape, type_id);
    if (of.telling == Telling::op) {
      ++of.count;
    } else {
      const sonde_named_op name = named(of);
      const sonde_tensor view = view_of(of.tensors[0]);
      api->named_parameter(&name, &view);
    }
  });
  return true;
}

bool wants_iteration(std::uint32_t iteration) {
  const struct sonde_api* api = engine();
  return api != nullptr && api->wants_iteration(iteration) != 0;
}

}  // namespace sonde_mindspore
