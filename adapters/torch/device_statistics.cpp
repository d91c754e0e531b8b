// Statistics computed where the tensor is, in the stream that made it: by the engine's kernel on CUDA and ROCm, elsewhere by
// PyTorch's own reductions. Their numbers are in a table on the device: the kernel's records, or a row for each piece of a
// tensor. The table is copied to the host when it is full and when a step ends.
#include <ATen/Functions.h>
#include <ATen/ops/isnan.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <list>
#include <mutex>
#include <optional>
#include <vector>

#include "device_work.h"
#include "setup.h"

namespace sonde_torch {
namespace {

constexpr std::int64_t kTableBytes = 1 << 16;
// Elements of a piece: PyTorch's reductions take some copies of it in double precision, so 48 MB at most.
constexpr std::int64_t kPiece = 1 << 19;

// The columns of a row.
enum Column {
  kNan,
  kPositiveInf,
  kNegativeInf,
  kPositive,
  kNegative,
  kZero,
  kNegativeZero,
  kSum,
  kSquares,
  kMax,
  kMin,
  kColumns
};

// The part of a table that belongs to a tensor.
struct RowsOf {
  ReadingPtr reading;
  std::int64_t first = 0, bytes = 0;
  bool of_kernel = false;      // records of the engine's kernel; else rows of numbers
  std::uint64_t elements = 0;  // of_kernel
  std::uint32_t flags = 0;     // of_kernel: those of the tensor
  const char* lost = kDeviceFailed;
};

// The table of one stream. Its kernels and its copies are in the order of that stream.
struct RowTable {
  c10::Stream stream;
  at::Tensor memory;  // bytes
  std::int64_t used = 0;
  std::vector<RowsOf> tensors;
};

// A table on its way to the host.
struct Fetch {
  void* owner = nullptr;  // pinned memory
  at::Tensor bytes;
  at::ScalarType number_type = at::kDouble;
  std::vector<RowsOf> tensors;
  c10::Stream stream;
  c10::Event done;
};

struct RowTables {
  std::mutex mutex;
  std::list<RowTable> tables;
  InFlight<Fetch> in_flight{mutex};
  std::atomic<bool> has_rows{false};
};

Leaked<RowTables> g_row_tables;

// Devices without double precision compute in float.
at::ScalarType number_type(c10::Device device) { return device.is_mps() ? at::kFloat : at::kDouble; }

// --- one piece: the row of its numbers ------------------------------------------------------------------------------

at::Tensor row_of(const at::Tensor& piece) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const at::Tensor values = piece.to(number_type(piece.device())).reshape({-1});
  const at::Tensor zero = values.eq(0);
  const at::Tensor masks = at::stack({at::isnan(values), values.eq(kInf), values.eq(-kInf), values.gt(0), values.lt(0),
                                      zero, zero.logical_and(at::signbit(values))});
  const at::Tensor counts = masks.sum({1}, false, values.scalar_type());
  const at::Tensor finite = at::nan_to_num(values, 0, 0, 0);
  const at::Tensor numbers =
      at::stack({finite.sum(), finite.square().sum(), at::nan_to_num(values, -kInf, -kInf, -kInf).amax(),
                 at::nan_to_num(values, kInf, kInf, kInf).amin()});
  return at::cat({counts, numbers});
}

// Calls take(piece) for pieces of at most kPiece elements.
template <typename Take>
void for_each_piece(const at::Tensor& tensor, Take take) {
  if (tensor.numel() <= kPiece) return take(tensor);
  const auto sizes = tensor.sizes();
  const std::int64_t longest = std::ranges::max_element(sizes) - sizes.begin();
  const std::int64_t size = tensor.size(longest);
  const std::int64_t length = std::max<std::int64_t>(1, size * kPiece / tensor.numel());
  for (std::int64_t first = 0; first < size; first += length) {
    for_each_piece(tensor.narrow(longest, first, std::min(length, size - first)), take);
  }
}

// The elements in the order of their memory, if they fill it: pieces are then cut from one row.
at::Tensor flat_in_memory(const at::Tensor& tensor) {
  if (!tensor.is_non_overlapping_and_dense()) return tensor;
  return tensor.as_strided({tensor.numel()}, {1});
}

// --- tables -----------------------------------------------------------------------------------------------------------

at::Tensor table_memory(const c10::Stream& stream, std::int64_t bytes) {
  return at::empty({bytes}, at::TensorOptions(at::kByte).device(stream.device()));
}

// Locked.
RowTable& table_of(RowTables& all, const c10::Stream& stream) {
  for (RowTable& table : all.tables) {
    if (table.stream == stream) return table;
  }
  all.tables.push_back({stream, table_memory(stream, kTableBytes), 0, {}});
  return all.tables.back();
}

// Locked. `lost`: gets the tensors of a table that cannot be fetched.
void fetch_table(RowTables& all, RowTable& table, std::vector<RowsOf>& lost) {
  if (table.used == 0) return;
  std::vector<RowsOf> tensors = std::move(table.tensors);
  const std::int64_t used = table.used;
  table.tensors.clear();
  table.used = 0;
  void* owner = nullptr;
  try {
    const OwnOperators guard;
    const char* why = nullptr;
    if (take_pinned(static_cast<std::uint64_t>(used), &owner, &why) == nullptr) {
      for (RowsOf& rows : tensors) rows.lost = "no pinned memory for its statistics";
      lost = std::move(tensors);
      return;
    }
    at::Tensor host = pinned_tensor(owner, {used}, at::kByte);
    c10::Event done(table.stream.device_type());
    const OnStream current(table.stream);
    host.copy_(table.memory.narrow(0, 0, used), true);
    done.record(table.stream);
    all.in_flight.add({owner, std::move(host), number_type(table.stream.device()), std::move(tensors), table.stream,
                       std::move(done)});
  } catch (...) {  // the stream was destroyed, or the device is gone; what it may still write is not used again
    lost = std::move(tensors);
  }
}

// Locked. A table of the stream with room for so many bytes more. What it had may have to be fetched before.
RowTable& room_for(RowTables& all, const c10::Stream& stream, std::int64_t bytes, std::vector<RowsOf>& lost) {
  RowTable& table = table_of(all, stream);
  if (table.used + bytes <= table.memory.numel()) return table;
  fetch_table(all, table, lost);
  if (bytes > table.memory.numel()) table.memory = table_memory(stream, bytes);  // the old one is freed in stream order
  return table;
}

// Locked.
void add_to(RowTables& all, RowTable& table, RowsOf rows) {
  constexpr std::int64_t kAlignment = 16;
  rows.reading->parts.fetch_add(1);
  rows.first = table.used;
  table.used = std::min((table.used + rows.bytes + kAlignment - 1) / kAlignment * kAlignment, table.memory.numel());
  table.tensors.push_back(std::move(rows));
  all.has_rows = true;
}

template <typename Number>
void add_rows_as(const std::byte* data, std::int64_t bytes, sonde_device_result& to) {
  to.max = -std::numeric_limits<double>::infinity();
  to.min = std::numeric_limits<double>::infinity();
  std::uint64_t negative_zeros = 0;
  for (const std::byte* row = data; row < data + bytes; row += kColumns * sizeof(Number)) {
    const auto number = [&](Column column) {
      return static_cast<double>(reinterpret_cast<const Number*>(row)[column]);
    };
    const auto counted = [&](Column column) { return static_cast<std::uint64_t>(number(column)); };
    to.nan_count += counted(kNan);
    to.positive_inf_count += counted(kPositiveInf);
    to.negative_inf_count += counted(kNegativeInf);
    to.positive_count += counted(kPositive);
    to.negative_count += counted(kNegative);
    to.zero_count += counted(kZero);
    negative_zeros += counted(kNegativeZero);
    to.sum += number(kSum);
    to.sum_squares += number(kSquares);
    to.max = std::max(to.max, number(kMax));
    to.min = std::min(to.min, number(kMin));
  }
  if (to.max < to.min) {  // nothing is finite: as on the CPU
    to.max = to.min = 0;
    return;
  }
  // -0 comes before +0 on the CPU; for reductions they are equal.
  if (to.max == 0) to.max = to.zero_count > negative_zeros ? 0.0 : -0.0;
  if (to.min == 0) to.min = negative_zeros > 0 ? -0.0 : 0.0;
}

void add_rows(const Fetch& fetched, const RowsOf& rows, sonde_device_result& to) {
  const auto* data = static_cast<const std::byte*>(fetched.bytes.const_data_ptr()) + rows.first;
  if (rows.of_kernel) {
    api().device_fold(data, rows.elements, rows.flags, &to);
  } else if (fetched.number_type == at::kFloat) {
    add_rows_as<float>(data, rows.bytes, to);
  } else {
    add_rows_as<double>(data, rows.bytes, to);
  }
}

void hand_over_rows(const Fetch& fetched, bool lost) {
  for (const RowsOf& rows : fetched.tensors) {
    if (!lost) add_rows(fetched, rows, rows.reading->result);
    lost ? failed(rows.reading, kDeviceFailed) : arrived(rows.reading, SONDE_READ_STATISTICS);
  }
  if (!lost) give_pinned(fetched.owner);
}

void fail_all(const std::vector<RowsOf>& tensors) {
  for (const RowsOf& rows : tensors) failed(rows.reading, rows.lost);
}

// PyTorch for ROCm has devices of the type CUDA too.
std::uint32_t runtime_of_torch() {
  static const bool rocm = [] {
    void* const library = dlopen("libtorch_hip.so", RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) dlclose(library);
    return library != nullptr;
  }();
  return rocm ? SONDE_RUNTIME_ROCM : SONDE_RUNTIME_CUDA;
}

// The driver's own handle of a stream. Nothing: this PyTorch does not give it.
template <class Guard>
std::optional<void*> native_handle(const Guard& guard, const c10::Stream& stream) {
  if constexpr (requires { guard.getStreamNativeHandle(stream); }) {
    return guard.getStreamNativeHandle(stream);
  } else {
    return std::nullopt;
  }
}

// By the engine's kernel, in one launch. False: it cannot be used for this tensor or device, or at all.
bool begin_kernel(const ReadingPtr& reading, const sonde_tensor& tensor, const c10::Stream& stream) {
  if (!stream.device().is_cuda()) return false;
  static std::array<std::atomic<bool>, 256>
      refused_by{};  // by device: another one may have another driver or architecture
  std::atomic<bool>& refused = refused_by.at(static_cast<std::uint8_t>(stream.device_index()));
  if (refused) return false;
  const std::int64_t bytes = api().device_record_bytes(&tensor);
  const std::optional<void*> handle = native_handle(c10::impl::VirtualGuardImpl(stream.device_type()), stream);
  if (bytes < 0 || !handle) return false;
  sonde_device_queue queue{};
  queue.size = sizeof queue;
  queue.runtime = runtime_of_torch();
  queue.stream = *handle;
  queue.device = static_cast<std::uint32_t>(stream.device_index());
  RowsOf rows{.reading = reading, .bytes = bytes, .of_kernel = true, .elements = 1, .flags = tensor.flags};
  for (std::uint32_t i = 0; i < tensor.ndim; ++i) rows.elements *= static_cast<std::uint64_t>(tensor.shape[i]);
  RowTables& all = *g_row_tables;
  std::vector<RowsOf> lost;
  std::array<char, 512> message{};
  bool launched = false;
  {
    const std::lock_guard lock(all.mutex);
    RowTable& table = room_for(all, stream, bytes, lost);
    const sonde_tensor* const tensors[] = {&tensor};
    auto* records = static_cast<std::byte*>(table.memory.data_ptr()) + table.used;
    launched = api().device_statistics(&queue, tensors, 1, records, message.data(), message.size()) == 0;
    if (launched) add_to(all, table, std::move(rows));
  }
  fail_all(lost);
  if (!launched && !refused.exchange(true)) {
    std::fprintf(stderr, "sonde: %s; PyTorch's reductions take the statistics, which is slower\n", message.data());
  }
  return launched;
}

// A row for each piece of the tensor.
void begin_reductions(const ReadingPtr& reading, const at::Tensor& source, const c10::Stream& stream) {
  const at::Tensor numbers = flat_in_memory(source.is_complex() ? at::view_as_real(source.resolve_conj()) : source);
  std::vector<at::Tensor> pieces;
  for_each_piece(numbers, [&](const at::Tensor& piece) { pieces.push_back(row_of(piece)); });
  const at::Tensor rows = pieces.size() == 1 ? pieces.front() : at::cat(pieces);
  RowTables& all = *g_row_tables;
  std::vector<RowsOf> lost;
  {
    const std::lock_guard lock(all.mutex);
    const auto bytes = static_cast<std::int64_t>(rows.nbytes());
    RowTable& table = room_for(all, stream, bytes, lost);
    table.memory.narrow(0, table.used, bytes).view(rows.scalar_type()).copy_(rows, true);
    add_to(all, table, {.reading = reading, .bytes = bytes});
  }
  fail_all(lost);
}

}  // namespace

void begin_statistics(const ReadingPtr& reading, const at::Tensor& source, const sonde_tensor& tensor) {
  const c10::Stream stream = c10::impl::VirtualGuardImpl(source.device().type()).getStream(source.device());
  if (!begin_kernel(reading, tensor, stream)) begin_reductions(reading, source, stream);
}

void fetch_rows() {
  RowTables& all = *g_row_tables;
  if (!all.has_rows.exchange(false)) return;
  std::vector<RowsOf> lost;
  {
    const std::lock_guard lock(all.mutex);
    for (RowTable& table : all.tables) {
      std::vector<RowsOf> of_table;
      fetch_table(all, table, of_table);
      std::ranges::move(of_table, std::back_inserter(lost));
    }
  }
  fail_all(lost);
}

void poll_rows() { g_row_tables->in_flight.poll(hand_over_rows); }

void drain_rows() {
  fetch_rows();
  g_row_tables->in_flight.drain(hand_over_rows);
}

void forget_rows() { g_row_tables.renew(); }

}  // namespace sonde_torch
