// Statistics computed where the tensor is, by PyTorch's own reductions, in the stream that made it. Each piece of a tensor
// has a row of numbers in a table on the device; the table is copied to the host when it is full and when a step ends.
#include <ATen/Functions.h>
#include <ATen/ops/isnan.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "device_work.h"

namespace sonde_torch {
namespace {

constexpr std::int64_t kRows = 512;
// Elements of a piece: PyTorch's reductions take some copies of it in double precision, so 48 MB at most.
constexpr std::int64_t kPiece = 1 << 19;

// The columns of a row.
enum Column { kNan, kPositiveInf, kNegativeInf, kPositive, kNegative, kZero, kSum, kSquares, kMax, kMin, kColumns };

struct RowsOf {
  ReadingPtr reading;
  std::int64_t first = 0, count = 0;
};

// The table of one stream. Its kernels and its copies are in the order of that stream.
struct RowTable {
  c10::Stream stream;
  at::Tensor rows;
  std::int64_t used = 0;
  std::vector<RowsOf> tensors;
};

// A table on its way to the host.
struct Fetch {
  void* owner = nullptr;  // pinned memory
  at::Tensor rows;
  std::vector<RowsOf> tensors;
  c10::Event done;
};

struct RowTables {
  std::mutex mutex;
  std::list<RowTable> tables;
  std::list<std::shared_ptr<Fetch>> in_flight;
  std::atomic<std::size_t> count{0};  // of in_flight
  std::atomic<bool> has_rows{false};
  std::atomic<int> handing_over{0};
};

std::atomic<RowTables*>& row_tables_pointer() {
  static std::atomic<RowTables*> pointer{new RowTables};  // leaked: threads may outlive static destruction
  return pointer;
}
RowTables& row_tables() { return *row_tables_pointer().load(); }

constexpr const char* kRowsLost = "the device failed before it had been read";

// Devices without double precision compute in float.
at::ScalarType number_type(c10::Device device) { return device.is_mps() ? at::kFloat : at::kDouble; }

// --- one piece: the row of its numbers ------------------------------------------------------------------------------

at::Tensor row_of(const at::Tensor& piece) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const at::Tensor values = piece.to(number_type(piece.device())).reshape({-1});
  const at::Tensor masks =
      at::stack({at::isnan(values), values.eq(kInf), values.eq(-kInf), values.gt(0), values.lt(0), values.eq(0)});
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

// Locked.
RowTable& table_of(RowTables& all, const c10::Stream& stream) {
  for (RowTable& table : all.tables) {
    if (table.stream == stream) return table;
  }
  const auto options = at::TensorOptions(number_type(stream.device())).device(stream.device());
  all.tables.push_back({stream, at::empty({kRows, kColumns}, options), 0, {}});
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
    const at::ScalarType type = table.rows.scalar_type();
    if (take_pinned(static_cast<std::uint64_t>(used * kColumns) * c10::elementSize(type), &owner, &why) == nullptr) {
      lost = std::move(tensors);
      return;
    }
    at::Tensor host = pinned_tensor(owner, {used, kColumns}, type);
    c10::Event done(table.stream.device_type());
    const OnStream current(table.stream);
    host.copy_(table.rows.narrow(0, 0, used), true);
    done.record(table.stream);
    all.in_flight.push_back(
        std::make_shared<Fetch>(Fetch{owner, std::move(host), std::move(tensors), std::move(done)}));
    all.count = all.in_flight.size();
  } catch (...) {  // the stream was destroyed, or the device is gone; what it may still write is not used again
    lost = std::move(tensors);
  }
}

double number_at(const Fetch& fetched, std::int64_t row, Column column) {
  const std::int64_t at = row * kColumns + column;
  if (fetched.rows.scalar_type() == at::kFloat) return static_cast<const float*>(fetched.rows.const_data_ptr())[at];
  return static_cast<const double*>(fetched.rows.const_data_ptr())[at];
}

void add_rows(const Fetch& fetched, const RowsOf& rows, sonde_device_result& to) {
  to.max = -std::numeric_limits<double>::infinity();
  to.min = std::numeric_limits<double>::infinity();
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    const auto counted = [&](Column column) { return static_cast<std::uint64_t>(number_at(fetched, row, column)); };
    to.nan_count += counted(kNan);
    to.positive_inf_count += counted(kPositiveInf);
    to.negative_inf_count += counted(kNegativeInf);
    to.positive_count += counted(kPositive);
    to.negative_count += counted(kNegative);
    to.zero_count += counted(kZero);
    to.sum += number_at(fetched, row, kSum);
    to.sum_squares += number_at(fetched, row, kSquares);
    to.max = std::max(to.max, number_at(fetched, row, kMax));
    to.min = std::min(to.min, number_at(fetched, row, kMin));
  }
}

void hand_over_rows(const Fetch& fetched, bool lost) {
  for (const RowsOf& rows : fetched.tensors) {
    if (!lost) add_rows(fetched, rows, rows.reading->result);
    lost ? failed(rows.reading, kRowsLost) : arrived(rows.reading, SONDE_READ_STATISTICS);
  }
  if (!lost) give_pinned(fetched.owner);
}

void fail_all(const std::vector<RowsOf>& tensors) {
  for (const RowsOf& rows : tensors) failed(rows.reading, kRowsLost);
}

}  // namespace

// The seam for a kernel of our own: it would write the same rows in one launch.
void begin_statistics(const ReadingPtr& reading, const at::Tensor& source) {
  const at::Tensor numbers = flat_in_memory(source.is_complex() ? at::view_as_real(source.resolve_conj()) : source);
  std::vector<at::Tensor> rows;
  for_each_piece(numbers, [&](const at::Tensor& piece) { rows.push_back(row_of(piece)); });
  const c10::impl::VirtualGuardImpl guard(source.device().type());
  const c10::Stream stream = guard.getStream(source.device());
  RowTables& all = row_tables();
  std::vector<RowsOf> lost;
  {
    const std::lock_guard lock(all.mutex);
    RowTable& table = table_of(all, stream);
    const auto count = static_cast<std::int64_t>(rows.size());
    TORCH_CHECK(count <= kRows, "a tensor of too many pieces");
    if (table.used + count > kRows) fetch_table(all, table, lost);
    for (std::int64_t i = 0; i < count; ++i)
      table.rows.select(0, table.used + i).copy_(rows[static_cast<std::size_t>(i)], true);
    reading->parts.fetch_add(1);
    table.tensors.push_back({reading, table.used, count});
    table.used += count;
    all.has_rows = true;
  }
  fail_all(lost);
}

void fetch_rows() {
  RowTables& all = row_tables();
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

void poll_rows() {
  RowTables& all = row_tables();
  if (all.count.load(std::memory_order_relaxed) == 0) return;
  std::vector<std::pair<std::shared_ptr<Fetch>, bool>> ended;  // and whether it is lost
  {
    const std::lock_guard lock(all.mutex);
    const auto has_ended = [&](const std::shared_ptr<Fetch>& one) {
      bool ends = true, lost = false;
      try {
        ends = one->done.query();
      } catch (...) {
        lost = true;
      }
      if (ends) ended.emplace_back(one, lost);
      return ends;
    };
    std::erase_if(all.in_flight, has_ended);
    all.count = all.in_flight.size();
    all.handing_over.fetch_add(1);
  }
  for (const auto& [one, lost] : ended) hand_over_rows(*one, lost);
  all.handing_over.fetch_sub(1);
}

void drain_rows() {
  fetch_rows();
  RowTables& all = row_tables();
  std::list<std::shared_ptr<Fetch>> waiting;
  {
    const std::lock_guard lock(all.mutex);
    waiting = all.in_flight;
  }
  for (const auto& one : waiting) {
    try {
      one->done.synchronize();
    } catch (...) {  // poll_rows() finds out
    }
  }
  poll_rows();
  while (all.handing_over.load() > 0) std::this_thread::yield();
}

void forget_rows() { row_tables_pointer().store(new RowTables); }

}  // namespace sonde_torch
