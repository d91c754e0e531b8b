// Statistics on their way from devices: a table for each stream has the numbers of its tensors, as records of the engine's
// kernel or as rows of reductions. It is copied to the host when it is full and when a step ends.
#pragma once

#include <list>
#include <vector>

#include "device_work.h"
#include "synchronized.h"

namespace sonde_torch {

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
  std::list<RowTable> tables;
  bool has_rows = false;
};

Synchronized<RowTables>& row_tables();

RowTable& table_of(RowTables& all, const c10::Stream& stream);
// `lost`: gets the tensors of a table that cannot be fetched.
void fetch_table(RowTable& table, std::vector<RowsOf>& lost);
// A table of the stream with room for so many bytes more. What it had may have to be fetched before. Throws what PyTorch
// throws if there is no memory.
RowTable& room_for(RowTables& all, const c10::Stream& stream, std::int64_t bytes, std::vector<RowsOf>& lost);
void add_to(RowTables& all, RowTable& table, RowsOf rows);
void fail_all(const std::vector<RowsOf>& tensors);

// device_statistics.cpp: reduces those that wait.
void reduce_waiting(RowTables& all, RowTable& table, std::vector<RowsOf>& lost);

}  // namespace sonde_torch
