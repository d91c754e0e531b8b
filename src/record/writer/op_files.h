// OpFiles: the files beside the tensors of an op: its table (acl), its overflow record, its arguments.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dump/journal/record.h"
#include "ground/model/attribute.h"
#include "plan/config/plan.h"
#include "record/writer/op_table.h"
#include "record/writer/places.h"
#include "sonde/result.h"

namespace sonde {

// `save_kernel_args`: one JSON object, indented, keys sorted, all values as text; `null` without arguments.
std::string kernel_arguments_json(const std::vector<Attribute>& attributes);
// "{op}.{full name, `.` and `/` as `_`}.json"; {op} is the last part of the name up to its last `-`.
std::string kernel_arguments_name(const std::string& op_name);

// For one thread; records come in sequence order, attributes before the records that use them.
class OpFiles {
 public:
  // `aside` is the open directory for files being written; it and `places` outlive this object.
  OpFiles(const Plan& plan, const Layout& layout, int aside, Places& places);

  void define(const Attributes& attributes);
  // Collects rows of tables until flush(), because the journal must have the records first: such a record is taken,
  // and others stay with the caller.
  Status append(Record& record);
  Status flush();
  std::uint64_t rows() const { return rows_; }
  std::uint64_t row_bytes() const { return row_bytes_; }

 private:
  Status write_side_files(const Record& record);
  Status append_table(const Record& record);
  Status write_overflow(const Record& record);
  Status write_arguments(const Record& record);
  Status write(const Record& record, const std::string& text, const Places::Name& name, bool replace);

  Layout layout_;
  OpTableForm form_;
  bool with_tables_, with_arguments_, overflowed_only_;
  int aside_;
  Places& places_;
  std::vector<Record> tables_to_write_;
  std::map<std::uint32_t, std::string> arguments_;  // JSON, by id; those that ops may still use
  std::uint64_t rows_ = 0, row_bytes_ = 0;
};

}  // namespace sonde
