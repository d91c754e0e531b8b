// Statistics computed where the tensor is, in the stream that made it: by the engine's kernel on CUDA and ROCm, elsewhere by
// PyTorch's own reductions, which give a row of numbers for each piece of a tensor.
#include <ATen/Functions.h>

#include <limits>
#include <vector>

#include "device_numbers.h"
#include "device_tables.h"

namespace sonde_torch {
namespace {

// Smaller tensors wait in rows of numbers, which are reduced together.
constexpr std::int64_t kWaitingRow = 1 << 12;
constexpr std::int64_t kWaitingRows = kPiece / kWaitingRow;
constexpr std::int64_t kMostWaiting = kPiece / 4;

// Into the table; throws what PyTorch throws.
void add_numbers(RowTables& all, RowTable& table, const at::Tensor& numbers, std::vector<RowsOf>& lost) {
  const auto bytes = static_cast<std::int64_t>(numbers.nbytes());
  room_for(all, table.stream, bytes, lost);
  const at::Tensor place = table.memory.narrow(0, table.used, bytes).view(numbers.scalar_type());
  place.view(numbers.sizes()).copy_(numbers, true);
}

// Reduces those that wait from `first` to `last`; in two halves if the device has no memory for all at once.
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

}  // namespace

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

namespace {

// False: the tensor is too large, or there is no memory.
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
  std::vector<RowsOf> lost;
  const bool waits = add_waiting(*row_tables().lock(), reading, numbers, stream, lost);
  fail_all(lost);
  if (waits) return;
  lost.clear();
  std::vector<at::Tensor> pieces;
  for_each_piece(numbers, [&](const at::Tensor& piece) { pieces.push_back(numbers_of_piece(piece)); });
  const at::Tensor rows = pieces.size() == 1 ? pieces.front() : at::cat(pieces);
  {
    const auto all = row_tables().lock();
    RowTable& table = table_of(*all, stream);
    add_numbers(*all, table, rows, lost);
    reading->parts.fetch_add(1);
    add_to(*all, table, {.reading = reading, .bytes = static_cast<std::int64_t>(rows.nbytes())});
  }
  fail_all(lost);
}

}  // namespace

void begin_statistics(const ReadingPtr& reading, const at::Tensor& source, const sonde_tensor& tensor) {
  const c10::Device device = source.device();
  if (!begin_kernel(reading, tensor, device)) begin_reductions(reading, source, current_stream(device));
}

}  // namespace sonde_torch
