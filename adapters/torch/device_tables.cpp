#include "device_tables.h"

#include <ATen/Functions.h>

#include <iterator>
#include <utility>

#include "device_numbers.h"
#include "setup.h"

namespace sonde_torch {
namespace {

constexpr std::int64_t kTableBytes = 1 << 16;

Leaked<Synchronized<RowTables>> g_row_tables;
Leaked<InFlight<Fetch>> g_fetches;

at::Tensor table_memory(const c10::Stream& stream, std::int64_t bytes) {
  const OwnOperators guard;
  return at::empty({bytes}, at::TensorOptions(at::kByte).device(stream.device()));
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
    if (!lost) add_up(fetched, rows, *rows.reading->result.lock());
    lost ? failed(rows.reading, kDeviceFailed) : arrived(rows.reading, SONDE_READ_STATISTICS);
  }
  give_pinned(fetched.owner);
}

}  // namespace

Synchronized<RowTables>& row_tables() { return *g_row_tables; }

RowTable& table_of(RowTables& all, const c10::Stream& stream) {
  for (RowTable& table : all.tables) {
    if (table.stream == stream) return table;
  }
  all.tables.push_back({.stream = stream});
  return all.tables.back();
}

void fetch_table(RowTable& table, std::vector<RowsOf>& lost) {
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
    g_fetches->add({owner, std::move(host), number_type(table.stream.device()), std::move(tensors), table.stream,
                    std::move(done)});
  } catch (...) {  // the stream was destroyed, or the device is gone; what it may still write is not used again
    std::ranges::move(tensors, std::back_inserter(lost));
  }
}

RowTable& room_for(RowTables& all, const c10::Stream& stream, std::int64_t bytes, std::vector<RowsOf>& lost) {
  RowTable& table = table_of(all, stream);
  if (table.memory.defined() && table.used + bytes <= table.memory.numel()) return table;
  fetch_table(table, lost);
  const std::int64_t room = table.memory.defined() ? table.memory.numel() : 0;
  if (bytes > room) table.memory = table_memory(stream, std::max(bytes, kTableBytes));
  return table;
}

void add_to(RowTables& all, RowTable& table, RowsOf rows) {
  constexpr std::int64_t kAlignment = 16;
  rows.first = table.used;
  table.used = std::min((table.used + rows.bytes + kAlignment - 1) / kAlignment * kAlignment, table.memory.numel());
  table.tensors.push_back(std::move(rows));
  all.has_rows = true;
}

void fail_all(const std::vector<RowsOf>& tensors) {
  for (const RowsOf& rows : tensors) failed(rows.reading, rows.lost);
}

void fetch_rows() {
  launch_queued();
  std::vector<RowsOf> lost;
  {
    const auto all = row_tables().lock();
    if (!std::exchange(all->has_rows, false)) return;
    for (RowTable& table : all->tables) {
      reduce_waiting(*all, table, lost);
      table.waits = true;
      fetch_table(table, lost);
    }
  }
  fail_all(lost);
}

bool are_rows_under_way() { return !g_fetches->is_empty(); }

void poll_rows() { g_fetches->poll(hand_over_rows); }

void drain_rows() {
  fetch_rows();
  g_fetches->drain(hand_over_rows);
}

}  // namespace sonde_torch
