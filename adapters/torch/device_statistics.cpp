// Statistics computed where the tensor is, in the stream that made it: by the engine's kernel on CUDA and ROCm, elsewhere by
// PyTorch's own reductions. Their numbers are in a table on the device: the kernel's records, or a row for each piece of a
// tensor. The table is copied to the host when it is full and when a step ends.
#include <ATen/Functions.h>

#include <array>
#include <cstdio>
#include <iterator>
#include <limits>
#include <list>
#include <mutex>
#include <optional>
#include <vector>

#include "device_numbers.h"
#include "device_work.h"
#include "setup.h"

namespace sonde_torch {
namespace {

constexpr std::int64_t kTableBytes = 1 << 16;
// Smaller tensors wait in rows of numbers, which are reduced together.
constexpr std::int64_t kWaitingRow = 1 << 12;
constexpr std::int64_t kWaitingRows = kPiece / kWaitingRow;
constexpr std::int64_t kMostWaiting = kPiece / 4;

// The part of a table that belongs to a tensor.
struct RowsOf {
  ReadingPtr reading;
  std::int64_t first = 0, bytes = 0;
  bool of_kernel = false;      // records of the engine's kernel; else rows of numbers
  std::uint64_t elements = 0;  // of_kernel
  std::uint32_t flags = 0;     // of_kernel: those of the tensor
  std::uint64_t padding = 0;   // NaN that are not the tensor's
  const char* lost = kDeviceFailed;
};

// A tensor whose elements wait to be reduced with those of others.
struct Waiting {
  ReadingPtr reading;
  std::int64_t first_row, rows, elements;
};

// The table of one stream. Its kernels and its copies are in the order of that stream.
struct RowTable {
  c10::Stream stream;
  at::Tensor memory{};  // bytes; undefined: nothing is in it
  std::int64_t used = 0;
  std::vector<RowsOf> tensors{};
  at::Tensor numbers{};  // rows of those that wait, NaN behind them; undefined: none wait
  std::int64_t rows = 0;
  std::vector<Waiting> waiting{};
  bool waits = true;  // there is memory for them
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

at::Tensor table_memory(const c10::Stream& stream, std::int64_t bytes) {
  return at::empty({bytes}, at::TensorOptions(at::kByte).device(stream.device()));
}

// Locked.
RowTable& table_of(RowTables& all, const c10::Stream& stream) {
  for (RowTable& table : all.tables) {
    if (table.stream == stream) return table;
  }
  all.tables.push_back({.stream = stream});
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
      std::ranges::move(tensors, std::back_inserter(lost));
      return;
    }
    at::Tensor host = pinned_tensor(owner, {used}, at::kByte);
    c10::Event done(table.stream.device_type());
    const OnStream current(table.stream);
    host.copy_(table.memory.narrow(0, 0, used), true);
    done.record(table.stream);
    table.memory.reset();  // freed in the order of the stream
    all.in_flight.add({owner, std::move(host), number_type(table.stream.device()), std::move(tensors), table.stream,
                       std::move(done)});
  } catch (...) {  // the stream was destroyed, or the device is gone; what it may still write is not used again
    std::ranges::move(tensors, std::back_inserter(lost));
  }
}

// Locked. A table of the stream with room for so many bytes more. What it had may have to be fetched before.
RowTable& room_for(RowTables& all, const c10::Stream& stream, std::int64_t bytes, std::vector<RowsOf>& lost) {
  RowTable& table = table_of(all, stream);
  if (table.memory.defined() && table.used + bytes <= table.memory.numel()) return table;
  fetch_table(all, table, lost);
  const std::int64_t room = table.memory.defined() ? table.memory.numel() : 0;
  if (bytes > room) table.memory = table_memory(stream, std::max(bytes, kTableBytes));
  return table;
}

// Locked.
void add_to(RowTables& all, RowTable& table, RowsOf rows) {
  constexpr std::int64_t kAlignment = 16;
  rows.first = table.used;
  table.used = std::min((table.used + rows.bytes + kAlignment - 1) / kAlignment * kAlignment, table.memory.numel());
  table.tensors.push_back(std::move(rows));
  all.has_rows = true;
}

void add_up(const Fetch& fetched, const RowsOf& rows, sonde_device_result& to) {
  const auto* data = static_cast<const std::byte*>(fetched.bytes.const_data_ptr()) + rows.first;
  if (rows.of_kernel) {
    api().device_fold(data, rows.elements, rows.flags, &to);
    return;
  }
  add_rows(data, rows.bytes, fetched.number_type, to);
  to.nan_count -= rows.padding;
}

void hand_over_rows(const Fetch& fetched, bool lost) {
  for (const RowsOf& rows : fetched.tensors) {
    if (!lost) add_up(fetched, rows, rows.reading->result);
    lost ? failed(rows.reading, kDeviceFailed) : arrived(rows.reading, SONDE_READ_STATISTICS);
  }
  give_pinned(fetched.owner);
}

void fail_all(const std::vector<RowsOf>& tensors) {
  for (const RowsOf& rows : tensors) failed(rows.reading, rows.lost);
}

// By the engine's kernel, in one launch. False: it cannot be used for this tensor or device, or at all.
bool begin_kernel(const ReadingPtr& reading, const sonde_tensor& tensor, const c10::Stream& stream) {
  if (!stream.device().is_cuda()) return false;
  static std::array<std::atomic<bool>, 256>
      refused_by{};  // by device: another one may have another driver or architecture
  std::atomic<bool>& refused = refused_by.at(static_cast<std::uint8_t>(stream.device_index()));
  if (refused) return false;
  const std::int64_t bytes = api().device_record_bytes(&tensor);
  const std::optional<void*> handle = native_handle(stream);
  if (bytes < 0 || !handle) return false;
  sonde_device_queue queue{};
  queue.size = sizeof queue;
  queue.runtime = is_rocm() ? SONDE_RUNTIME_ROCM : SONDE_RUNTIME_CUDA;
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
    if (launched) {
      reading->parts.fetch_add(1);
      add_to(all, table, std::move(rows));
    }
  }
  fail_all(lost);
  if (!launched && !refused.exchange(true)) {
    std::fprintf(stderr, "sonde: %s; PyTorch's reductions take the statistics, which is slower\n", message.data());
  }
  return launched;
}

// Locked. Into the table; throws what PyTorch throws.
void add_numbers(RowTables& all, RowTable& table, const at::Tensor& numbers, std::vector<RowsOf>& lost) {
  const auto bytes = static_cast<std::int64_t>(numbers.nbytes());
  room_for(all, table.stream, bytes, lost);
  const at::Tensor place = table.memory.narrow(0, table.used, bytes).view(numbers.scalar_type());
  place.view(numbers.sizes()).copy_(numbers, true);
}

// Locked. Reduces those that wait from `first` to `last`; in two halves if the device has no memory for all at once.
void reduce_some(RowTables& all, RowTable& table, const Waiting* first, const Waiting* last,
                 std::vector<RowsOf>& lost) {
  const std::int64_t row = first->first_row;
  const std::int64_t rows = last[-1].first_row + last[-1].rows - row;
  try {
    const at::Tensor numbers = numbers_of(table.numbers.narrow(0, row, rows));
    add_numbers(all, table, numbers, lost);
    const std::int64_t bytes_of_row = static_cast<std::int64_t>(numbers.nbytes()) / rows;
    const std::int64_t start = table.used;
    for (const Waiting* one = first; one != last; ++one) {
      table.used = start + (one->first_row - row) * bytes_of_row;
      add_to(all, table,
             {.reading = one->reading,
              .bytes = one->rows * bytes_of_row,
              .padding = static_cast<std::uint64_t>(one->rows * kWaitingRow - one->elements)});
    }
  } catch (const c10::OutOfMemoryError&) {
    if (last - first == 1) {
      lost.push_back({.reading = first->reading, .lost = "the device had no memory for its statistics"});
      return;
    }
    const Waiting* const middle = first + (last - first) / 2;
    reduce_some(all, table, first, middle, lost);
    reduce_some(all, table, middle, last, lost);
  } catch (...) {
    for (const Waiting* one = first; one != last; ++one) lost.push_back({.reading = one->reading});
  }
}

// Locked.
void reduce_waiting(RowTables& all, RowTable& table, std::vector<RowsOf>& lost) {
  const std::vector<Waiting> waiting = std::move(table.waiting);
  table.waiting.clear();
  table.rows = 0;
  if (!waiting.empty()) {
    const OwnOperators guard;
    try {
      const OnStream current(table.stream);
      reduce_some(all, table, waiting.data(), waiting.data() + waiting.size(), lost);
    } catch (...) {  // the stream was destroyed, or the device is gone
      for (const Waiting& one : waiting) lost.push_back({.reading = one.reading});
    }
  }
  table.numbers.reset();  // freed in the order of the stream
}

// Locked. False: the tensor is too large, or there is no memory.
bool add_waiting(RowTables& all, const ReadingPtr& reading, const at::Tensor& numbers, const c10::Stream& stream,
                 std::vector<RowsOf>& lost) {
  const std::int64_t elements = numbers.numel();
  const std::int64_t rows = (elements + kWaitingRow - 1) / kWaitingRow;
  RowTable& table = table_of(all, stream);
  if (elements > kMostWaiting || !table.waits) return false;
  if (table.rows + rows > kWaitingRows) reduce_waiting(all, table, lost);
  if (!table.numbers.defined()) {
    try {
      const auto options = at::TensorOptions(number_type(stream.device())).device(stream.device());
      table.numbers = at::full({kWaitingRows, kWaitingRow}, std::numeric_limits<double>::quiet_NaN(), options);
    } catch (const c10::OutOfMemoryError&) {
      table.waits = false;
      return false;
    }
  }
  const at::Tensor place = table.numbers.view({-1}).narrow(0, table.rows * kWaitingRow, elements);
  place.view(numbers.sizes()).copy_(numbers, true);
  reading->parts.fetch_add(1);
  table.waiting.push_back({reading, table.rows, rows, elements});
  table.rows += rows;
  all.has_rows = true;
  return true;
}

// Small tensors wait, so that many are reduced together. Others have a row for each piece.
void begin_reductions(const ReadingPtr& reading, const at::Tensor& source, const c10::Stream& stream) {
  const at::Tensor numbers = flat_in_memory(source.is_complex() ? at::view_as_real(source.resolve_conj()) : source);
  RowTables& all = *g_row_tables;
  std::vector<RowsOf> lost;
  bool waits = false;
  {
    const std::lock_guard lock(all.mutex);
    waits = add_waiting(all, reading, numbers, stream, lost);
  }
  fail_all(lost);
  if (waits) return;
  lost.clear();
  std::vector<at::Tensor> pieces;
  for_each_piece(numbers, [&](const at::Tensor& piece) { pieces.push_back(numbers_of_piece(piece)); });
  const at::Tensor rows = pieces.size() == 1 ? pieces.front() : at::cat(pieces);
  {
    const std::lock_guard lock(all.mutex);
    RowTable& table = table_of(all, stream);
    add_numbers(all, table, rows, lost);
    reading->parts.fetch_add(1);
    add_to(all, table, {.reading = reading, .bytes = static_cast<std::int64_t>(rows.nbytes())});
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
      reduce_waiting(all, table, lost);
      table.waits = true;
      fetch_table(all, table, lost);
    }
  }
  fail_all(lost);
}

void poll_rows() { g_row_tables->in_flight.poll(hand_over_rows); }

void drain_rows() {
  fetch_rows();
  g_row_tables->in_flight.drain(hand_over_rows);
}

}  // namespace sonde_torch
