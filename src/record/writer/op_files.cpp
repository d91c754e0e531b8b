#include "record/writer/op_files.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "ground/base/json.h"
#include "record/writer/container_file.h"

namespace sonde {
namespace {

// As Python prints it: True, [1, 1], None.
std::string python_text(const Attribute& attribute) {
  if (attribute.kind != AttributeKind::boolean && attribute.kind != AttributeKind::booleans) return text_of(attribute);
  std::string text;
  for (const std::int64_t value : attribute.integers) {
    text.append(text.empty() ? "" : ", ").append(value != 0 ? "True" : "False");
  }
  return attribute.kind == AttributeKind::booleans ? "[" + text + "]" : text;
}

bool has_row(const TensorRecord& tensor) {
  const bool was_read = tensor.content != 0 || tensor.has_statistics;
  return tensor.wanted && was_read && std::ranges::count(tensor.shape.values(), 0) == 0;
}

}  // namespace

std::string kernel_arguments_json(const std::vector<Attribute>& attributes) {
  std::map<std::string, std::string> sorted;
  for (const Attribute& attribute : attributes) sorted[attribute.name] = python_text(attribute);
  Json json;  // "null" if there are none
  for (const auto& [name, text] : sorted) json[name] = text;
  return text_of_json(json, 4);
}

std::string kernel_arguments_name(const std::string& op_name) {
  std::string last = op_name.substr(op_name.rfind('/') + 1);
  last.resize(std::min(last.rfind('-'), last.size()));
  return fmt::format("{}.{}.json", sanitised(last), sanitised(op_name));
}

OpFiles::OpFiles(const Plan& plan, const Layout& layout, int aside, Places& places)
    : layout_(layout),
      form_(plan.statistic_category, plan.sonde.acl_quirks),
      with_tables_(plan.wants_statistics() && layout.has_op_tables()),
      with_arguments_(plan.save_kernel_args || plan.acl.scene >= Scene::exception_norm),
      overflowed_only_(plan.overflow_only()),
      aside_(aside),
      places_(places) {}

void OpFiles::define(const Attributes& attributes) {
  if (!with_arguments_) return;
  arguments_[attributes.id] = kernel_arguments_json(attributes.values);
  if (arguments_.size() < 2 * kMostAttributesKnown) return;
  const std::uint32_t newest = arguments_.rbegin()->first;
  arguments_.erase(arguments_.begin(), arguments_.lower_bound(newest - kMostAttributesKnown));
}

Status OpFiles::append(Record& record) {
  if (record.op == nullptr) return {};
  Status status;
  if (record.kind == RecordKind::op) status = write_side_files(record);
  if (status && with_tables_) tables_to_write_.push_back(std::move(record));
  return status;
}

Status OpFiles::write_side_files(const Record& record) {
  Status status;
  if (record.overflowed) status = write_overflow(record);
  if (status && !record.completes && with_arguments_ && (!overflowed_only_ || record.overflowed))
    status = write_arguments(record);
  return status;
}

Status OpFiles::flush() {
  Status status;
  for (const Record& record : std::exchange(tables_to_write_, {})) {
    if (status) status = append_table(record);
  }
  return status;
}

// A record that completes an op adds rows to the op's table.
Status OpFiles::append_table(const Record& record) {
  std::string rows;
  for (const TensorRecord& tensor : record.tensors) {
    if (!has_row(tensor)) continue;
    form_.append_row(tensor, rows);
    ++rows_;
  }
  if (rows.empty()) return {};
  row_bytes_ += rows.size();
  Result<OpenDirectory*> directory = places_.of(record);
  if (!directory) return directory.error();
  const std::uint64_t time = record.tensors.front().timestamp_us;
  const std::string name = layout_.names().op_file_name(*record.op, task_number(record), time) + ".csv";
  std::string path = (*directory)->path + name;
  if (name.size() > NAME_MAX) {
    const auto make = [](int at, const char* free) {
      return Fd(::openat(at, free, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kOpenMode)) ? 0 : errno;
    };
    const int error_number = places_.place(
        **directory, [&](int) { return name; }, make, path);
    if (error_number != 0) return places_.error("write a table in", **directory, error_number);
  }
  Result<AppendFile> file =
      AppendFile::open((*directory)->directory.get(), layout_.rank_directory() / path, form_.header());
  if (!file) return file.error();
  file->rows().append(rows);
  return file->close();
}

Status OpFiles::write(const Record& record, const std::string& text, const Places::Name& name, bool replace) {
  Result<OpenDirectory*> directory = places_.of(record);
  if (!directory) return directory.error();
  AsideFile file(aside_);
  int error_number = file.create();
  if (error_number == 0) error_number = file.write(text, nullptr, 0);
  std::string path;
  if (error_number == 0) {
    const auto put = [&](int at, const char* free) { return file.commit(at, free, replace); };
    error_number = places_.place(**directory, name, put, path);
  }
  if (error_number != 0) return places_.error("write a file of an op in", **directory, error_number);
  return {};
}

// Beside containers the overflow record is a container too; if CANN converts to npy, it is JSON. Synchronous dumps have
// none.
Status OpFiles::write_overflow(const Record& record) {
  static const OpName kDebug{0, "Opdebug", "Node_OpDebug"};
  const bool contained = layout_.tensor_form() == TensorForm::container;
  if (!contained && !layout_.has_tasks()) return {};
  const auto name = [&](int attempt) {
    const std::uint64_t time = record.timestamp_us + static_cast<std::uint64_t>(attempt);
    return layout_.names().op_file_name(kDebug, task_number(record), time) + (contained ? "" : ".output.0.json");
  };
  return write(record, contained ? overflow_container(record) : overflow_json(record), name, false);
}

Status OpFiles::write_arguments(const Record& record) {
  const bool wanted = std::ranges::any_of(record.tensors, &TensorRecord::wanted);
  if (!record.selected && !wanted) return {};
  const auto known = arguments_.find(record.attributes);
  if (record.attributes != 0 && known == arguments_.end()) return {};  // they are lost, and `null` would be wrong
  const std::string text = known != arguments_.end() ? known->second : "null";
  const auto name = [&](int) { return kernel_arguments_name(record.op->op_name); };
  return write(record, text, name, true);
}

}  // namespace sonde
