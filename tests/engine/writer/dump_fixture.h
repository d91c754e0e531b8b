// The common parts of the writer's tests: a temporary directory, a plan for it, and small records.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "record/writer/recorder.h"

namespace sonde::test {

namespace fs = std::filesystem;

class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const fs::path& where = fs::temp_directory_path()) {
    std::string name = (where / "sonde-store-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline unsigned mode_of(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

inline std::uint64_t inode_of(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

// Names of the regular files below `directory`, relative to it, sorted.
inline std::vector<std::string> files_below(const fs::path& directory) {
  std::vector<std::string> names;
  if (!fs::exists(directory)) return names;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) names.push_back(entry.path().lexically_relative(directory));
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline std::vector<fs::path> npy_files(const fs::path& directory) {
  std::vector<fs::path> found;
  for (const std::string& name : files_below(directory)) {
    if (name.ends_with(".npy")) found.push_back(directory / name);
  }
  return found;
}

// The exit status of `body`, run in a separate process; -1 if it was killed.
template <typename Body>
int in_child(Body body) {
  const ::pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

inline Plan plan_for(const fs::path& path, SavedData saved = SavedData::full) {
  Plan plan;
  plan.path = path;
  plan.net_name = "Net";
  plan.dialect = "mindspore-2.x";
  plan.saved_data = saved;
  plan.source_text = "{\"common_dump_settings\": {}}\n";
  return plan;
}

inline constexpr std::uint64_t kTime = 1700000000000000;
inline constexpr StepId kStep{0, 0};

// Calls a recorder as capture does, with fewer arguments.
class Host {
 public:
  explicit Host(const Plan& plan) {
    RunInfo run;
    run.host = run.command = "test";
    run.started = kTime / 1'000'000;  // all runs of a test find the same directories
    Result<std::unique_ptr<Recorder>> opened = Recorder::open(plan, run);
    if (opened) {
      recorder_ = std::move(*opened);
    } else {
      refused_ = opened.error();
    }
  }

  Recorder& operator*() { return *recorder_; }
  Recorder* operator->() { return recorder_.get(); }
  const Error& refused() const { return refused_; }
  bool is_open() const { return recorder_ != nullptr; }

  // Interned, as in capture.
  const OpName& op(const std::string& op_name, const std::string& type = "add") {
    const auto known = ids_.find(op_name);
    if (known != ids_.end()) return names_[known->second];
    ids_[op_name] = names_.size();
    names_.push_back({static_cast<std::uint32_t>(names_.size() + 1), type, op_name});
    recorder_->define(names_.back());
    return names_.back();
  }

  TensorRecord structure(std::vector<std::int64_t> shape, DType dtype = DType::float32) {
    TensorRecord tensor;
    tensor.dtype = dtype;
    tensor.shape = Dims(shape);
    tensor.timestamp_us = kTime + clock_++;
    return tensor;
  }

  // `values` with statistics; as content `content`.
  TensorRecord tensor(const std::vector<float>& values, std::uint64_t content) {
    TensorRecord tensor = structure({static_cast<std::int64_t>(values.size())});
    tensor.content = content;
    tensor.bytes = recorder_->blocks().take(values.size() * sizeof(float));
    if (tensor.bytes) {
      std::memcpy(tensor.bytes->data, values.data(), values.size() * sizeof(float));
    }
    tensor.has_statistics = true;
    tensor.statistics.count = values.size();
    tensor.statistics.max = values.empty() ? 0 : values.front();
    tensor.statistics.min = tensor.statistics.max;
    return tensor;
  }

  // The same content again, without bytes.
  TensorRecord again(const TensorRecord& first) {
    TensorRecord tensor = structure({first.shape.values().begin(), first.shape.values().end()});
    tensor.dtype = first.dtype;
    tensor.content = first.content;
    tensor.has_statistics = first.has_statistics;
    tensor.statistics = first.statistics;
    return tensor;
  }

  template <typename... Tensors>
  Record record(const OpName& name, StepId step, Tensors&&... tensors) {
    Record record;
    record.op = &name;
    record.step = step;
    record.sequence = recorder_->next_sequence();
    record.timestamp_us = kTime;
    (record.tensors.push_back(std::forward<Tensors>(tensors)), ...);
    return record;
  }

  template <typename... Tensors>
  void push(const OpName& name, StepId step, Tensors&&... tensors) {
    recorder_->push(record(name, step, std::forward<Tensors>(tensors)...));
  }

  void begin(StepId step) { push_mark(RecordKind::step_begin, step); }
  void end(StepId step) { push_mark(RecordKind::step_end, step); }

 private:
  void push_mark(RecordKind kind, StepId step) {
    Record record;
    record.kind = kind;
    record.step = step;
    record.sequence = recorder_->next_sequence();
    recorder_->push(std::move(record));
  }

  Error refused_;
  std::deque<OpName> names_;
  std::map<std::string, std::size_t> ids_;
  std::uint64_t clock_ = 0;
  std::unique_ptr<Recorder> recorder_;  // the last member: its thread reads the names until it ends
};

inline std::vector<float> values_from(const fs::path& npy) {
  const std::string text = read_text(npy);
  std::vector<float> values(text.size() < 128 ? 0 : (text.size() - 128) / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), text.data() + 128, values.size() * sizeof(float));
  return values;
}

}  // namespace sonde::test
