// Tensor files with free names: golden files of other frameworks, files saved by users, ATB's.
#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "dump/formats/free_names.h"
#include "dump/formats/torch_file.h"
#include "ground/base/text.h"
#include "read/catalog/catalog_readers.h"
#include "read/catalog/dump_tree.h"
#include "read/catalog/recorded_settings.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

// "2" before "10".
bool natural_less(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      std::size_t x = 0, y = 0;
      while (x < a.size() && is_digit(a[x])) ++x;
      while (y < b.size() && is_digit(b[y])) ++y;
      std::string_view left = a.substr(0, x), right = b.substr(0, y);
      while (left.size() > 1 && left.front() == '0') left.remove_prefix(1);
      while (right.size() > 1 && right.front() == '0') right.remove_prefix(1);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
      a.remove_prefix(x);
      b.remove_prefix(y);
    } else {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.size() < b.size();
}

struct LooseFile {
  FreeTensorName name;
  std::string path;  // relative to the rank's directory
  std::uint64_t step = 0;
};

// ATB: `…/{number}_{op}/…/{before,after}/intensor0.bin`; the step and the device are in directories of numbers.
FreeTensorName parse_atb_path(const std::string& path) {
  FreeTensorName out;
  const std::string file = lower_case(fs::path(path).stem().string());
  for (const std::string& word : {std::string("intensor"), std::string("outtensor")}) {
    const std::size_t at = file.find(word);
    if (at != 0) continue;
    out.is_input = word == "intensor";
    std::string_view number = std::string_view(file).substr(word.size());
    while (number.starts_with('_')) number.remove_prefix(1);
    std::from_chars(number.data(), number.data() + number.size(), out.slot);
    const fs::path above = fs::path(path).parent_path();
    const std::string last = above.filename();
    out.op_name = (last == "before" || last == "after" ? above.parent_path() : above).native();
  }
  if (out.op_name.empty()) out.op_name = path.substr(0, path.rfind('.'));
  const std::string_view type = std::string_view(out.op_name).substr(out.op_name.rfind('/') + 1);
  const std::size_t bar = type.find('_');
  const bool numbered =
      bar != std::string_view::npos && type.substr(0, bar).find_first_not_of("0123456789") == std::string_view::npos;
  out.op_type = numbered ? type.substr(bar + 1) : type;
  return out;
}

// Collects the files of one rank and makes ops of them.
class LooseReader {
 public:
  LooseReader(CatalogRank& rank, Catalog& catalog) : rank_(rank), catalog_(catalog) {}

  void look_into(const LoosePlace& place) {
    std::error_code error;
    for (fs::directory_iterator at(place.directory, error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename();
      const bool is_free = is_free_tensor_name(name);
      std::error_code ignored;
      if (!is_free && !name.ends_with(".bin")) continue;
      if (at->is_directory(ignored)) continue;
      if (at->is_symlink(ignored)) {
        if (Status inside = check_link(at->path(), rank_.directory); !inside) {
          catalog_.problems.push_back({at->path(), inside.error().message});
          continue;
        }
      }
      if (!at->is_regular_file(ignored)) {
        catalog_.problems.push_back({at->path(), "it is not a regular file; it is not read"});
        continue;
      }
      if (!is_free && !is_atb_file(at->path())) continue;
      LooseFile file;
      file.path = at->path().lexically_relative(rank_.directory);
      file.name = is_free ? parse_free_tensor_name(place.prefix + name) : parse_atb_path(place.prefix + name);
      file.step = file.name.step.value_or(place.step);
      files_.push_back(std::move(file));
    }
    if (error) catalog_.problems.push_back({place.directory, "cannot look into it: " + error.message()});
  }

  void make_steps() {
    std::ranges::stable_sort(files_, [](const LooseFile& a, const LooseFile& b) {
      if (a.step != b.step) return a.step < b.step;
      if (a.name.timestamp_us != b.name.timestamp_us) return a.name.timestamp_us < b.name.timestamp_us;
      return natural_less(a.path, b.path);
    });
    for (const LooseFile& file : files_) {
      if (rank_.steps.empty() || rank_.steps.back().id.number != file.step) {
        CatalogStep& step = rank_.steps.emplace_back();
        step.id.number = file.step;
        step.ended = true;
        ops_.clear();
      }
      add(file, rank_.steps.back());
    }
    std::uint64_t sequence = 0;
    for (CatalogStep& step : rank_.steps) {
      for (CatalogOp& op : step.ops) op.sequence = sequence++;
    }
  }

 private:
  CatalogOp& op_of(const FreeTensorName& name, CatalogStep& step) {
    const auto [at, is_new] = ops_.try_emplace(name.op_name, step.ops.size());
    if (is_new) step.ops.push_back(new_op(name));
    return step.ops[at->second];
  }

  CatalogOp new_op(const FreeTensorName& name) {
    CatalogOp op;
    op.op_name = catalog_.texts->keep(name.op_name);
    op.timestamp_us = name.timestamp_us;
    MsprobeName record;
    const std::string_view last = op.op_name.substr(op.op_name.rfind('/') + 1);
    if (!name.op_type.empty() && parse_msprobe_name(last, record)) {
      op.is_module = record.is_module && !record.is_gradient;
      if (record.is_backward) op.phase = Phase::backward;
    }
    op.op_type = catalog_.texts->keep(name.op_type);
    return op;
  }

  // A repeated name (conv.npy beside conv.pt) is a further run of the op.
  void add(const LooseFile& file, CatalogStep& step) {
    std::vector<CatalogTensor> tensors = tensors_of(file);
    if (tensors.empty()) return;
    CatalogOp* op = &op_of(file.name, step);
    if (file.name.key.empty() && has_slot(*op, tensors.front())) {
      ops_[file.name.op_name] = step.ops.size();
      op = &step.ops.emplace_back(new_op(file.name));
    }
    for (CatalogTensor& tensor : tensors) {
      while (has_slot(*op, tensor)) ++tensor.slot;  // items of a list and arguments by name count on
      op->tensors.push_back(std::move(tensor));
    }
    std::ranges::stable_sort(op->tensors, [](const CatalogTensor& a, const CatalogTensor& b) {
      return a.is_input != b.is_input ? a.is_input : a.slot < b.slot;
    });
  }

  static bool has_slot(const CatalogOp& op, const CatalogTensor& tensor) {
    return std::ranges::any_of(op.tensors, [&](const CatalogTensor& other) {
      return other.is_input == tensor.is_input && other.slot == tensor.slot;
    });
  }

  // For a .npy one tensor, whose header need not be read now; for a .pt those it lists.
  std::vector<CatalogTensor> tensors_of(const LooseFile& file) {
    CatalogTensor tensor;
    tensor.is_input = file.name.is_input;
    tensor.slot = file.name.slot;
    tensor.key = catalog_.texts->keep(file.name.key);
    tensor.timestamp_us = file.name.timestamp_us;
    tensor.file = catalog_.texts->keep_unique(file.path);
    if (!file.path.ends_with(".pt") && !file.path.ends_with(".pth")) return {tensor};
    const Result<TorchHeader> header = read_torch(rank_.directory / file.path);
    if (!header) {
      catalog_.problems.push_back({rank_.directory / file.path, header.error().message});
      return {};
    }
    std::vector<CatalogTensor> tensors;
    for (const TorchTensor& from : header->tensors) {
      CatalogTensor& to = tensors.emplace_back(tensor);
      if (header->tensors.size() > 1) {
        to.slot = static_cast<std::uint32_t>(tensors.size() - 1);
        to.key = catalog_.texts->keep(from.name);
      }
      to.dtype = from.dtype;
      to.has_shape = true;
      to.shape = from.shape;
    }
    return tensors;
  }

  CatalogRank& rank_;
  Catalog& catalog_;
  std::vector<LooseFile> files_;
  std::unordered_map<std::string, std::size_t> ops_;  // of the step at hand, by name
};

}  // namespace

void read_loose_rank(const std::vector<LoosePlace>& places, CatalogRank& rank, Catalog& catalog) {
  LooseReader reader(rank, catalog);
  for (const LoosePlace& place : places) reader.look_into(place);
  reader.make_steps();
  CatalogRun run;
  run.finished = true;
  run.settings = recorded_settings(rank.metadata);
  run.layout = "files";
  rank.runs.push_back(std::move(run));
}

}  // namespace sonde
