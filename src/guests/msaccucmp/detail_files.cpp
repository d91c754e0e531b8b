#include "guests/msaccucmp/detail_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <sstream>

#include "dump/formats/npy.h"
#include "ground/base/text.h"
#include "ground/files/mapped_file.h"
#include "ground/files/safe_path.h"
#include "guests/msaccucmp/algorithms.h"
#include "guests/msaccucmp/result_table.h"

namespace sonde::msaccucmp {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 254;
constexpr std::size_t kRank = 4;
constexpr std::uint64_t kLongestList = 64 << 20;  // bytes
constexpr std::string_view kShortNames = "simple_op_mapping.csv";

// An error that is not finite has no size.
double countable(double error) { return std::isfinite(error) ? error : 0; }

// "1 0 2 3": where the element `index` of an array of `shape` is.
std::string place_text(std::int64_t index, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> place(std::max(shape.size(), kRank), 0);
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    place[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return fmt::format("{}", fmt::join(place, " "));
}

std::string_view bool_text(double value) { return value != 0 ? "True" : "False"; }

void add_element(std::string& text, std::int64_t index, const ElementError& e, const std::vector<std::int64_t>& shape,
                 bool are_bools) {
  const std::string place = place_text(index, shape);
  if (are_bools) {
    text += fmt::format("{},{},{}\t,{}\t,-\t,-\n", index, place, bool_text(e.left), bool_text(e.right));
    return;
  }
  const double absolute = std::isinf(e.absolute) ? std::numeric_limits<double>::quiet_NaN() : e.absolute;
  text += fmt::format("{},{},{}\t,{}\t,{}\t,", index, place, fixed(e.left), fixed(e.right), fixed(absolute));
  text += std::isfinite(e.relative) ? fixed(e.relative) + "\t\n" : "-\n";
}

std::string without_words(std::string text) {
  for (const std::string_view word : {"nan", "inf"}) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word)) {
      text.replace(at, word.size(), "-");
    }
  }
  return text;
}

// The numbers of the elements with the largest errors, largest first; of equal ones, the later first.
class Top {
 public:
  explicit Top(std::size_t most) : most_(most) {}
  void take(double error, std::int64_t index) {
    if (most_ == 0 || (least_.size() == most_ && std::pair(error, index) < least_.top())) return;
    if (least_.size() == most_) least_.pop();
    least_.emplace(error, index);
  }
  std::vector<std::int64_t> indexes() {
    std::vector<std::int64_t> indexes;
    for (; !least_.empty(); least_.pop()) indexes.push_back(least_.top().second);
    std::ranges::reverse(indexes);
    return indexes;
  }

 private:
  using Entry = std::pair<double, std::int64_t>;
  std::size_t most_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> least_;
};

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  for (const std::string_view part : split(line, ',')) {
    std::string& cell = cells.emplace_back(part);
    while (!cell.empty() && std::isspace(static_cast<unsigned char>(cell.back())) != 0) cell.pop_back();
  }
  return cells;
}

// Columns as wide as their widest cell, a tab between them.
std::string as_table(const std::vector<std::string>& lines) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::size_t> widths;
  for (const std::string& line : lines) {
    rows.push_back(cells_of(line));
    widths.resize(std::max(widths.size(), rows.back().size()));
    for (std::size_t i = 0; i < rows.back().size(); ++i) widths[i] = std::max(widths[i], rows.back()[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += fmt::format("{:<{}}{}", row[i], widths[i], i + 1 < row.size() ? '\t' : '\n');
    }
  }
  return text;
}

}  // namespace

struct DetailFiles::Summary {
  std::int64_t count = 0;
  double least_absolute = std::numeric_limits<double>::quiet_NaN(), most_absolute = least_absolute;
  double least_relative = least_absolute, most_relative = least_absolute;
  std::vector<std::int64_t> top_absolute, top_relative;

  // Also chooses the elements to list: the requested number, or, if there are fewer elements, one less than there are.
  Summary(const ElementErrors& errors, std::int64_t elements, std::int64_t wanted) : count(elements) {
    std::int64_t most = elements < wanted ? elements - 1 : wanted;
    if (errors.are_bools()) {
      for (std::int64_t i = 0; i < most; ++i) top_absolute.push_back(i);
      top_relative = top_absolute;
      return;
    }
    if (most == 0) most = elements;  // a single element is listed
    Top absolute(static_cast<std::size_t>(std::max<std::int64_t>(most, 0))), relative = absolute;
    for (std::int64_t i = 0; i < elements; ++i) {
      const ElementError error = errors.at(i);
      const double a = countable(error.absolute), r = countable(error.relative);
      absolute.take(a, i);
      relative.take(r, i);
      least_absolute = i == 0 ? a : std::min(least_absolute, a);
      most_absolute = i == 0 ? a : std::max(most_absolute, a);
      least_relative = i == 0 ? r : std::min(least_relative, r);
      most_relative = i == 0 ? r : std::max(most_relative, r);
    }
    top_absolute = absolute.indexes();
    top_relative = relative.indexes();
  }
};

DetailFiles::DetailFiles(fs::path directory, const SingleOperator& single, std::int64_t index, std::string dump_file)
    : directory_(std::move(directory)), single_(single), dump_file_(std::move(dump_file)) {
  tensor_ = fmt::format("_{}_{}", single.is_input ? "input" : "output", index);
  prefix_ = single.op_name;
  std::ranges::replace(prefix_, '/', '_');
  prefix_ += tensor_;
  std::ranges::replace(dump_file_, '.', '_');
}

fs::path DetailFiles::file(const std::string& ending, const std::string& short_ending) const {
  const std::string name = prefix_ + ending;
  if (name.size() <= kLongestName) return directory_ / name;
  std::string shorter = dump_file_ + tensor_ + short_ending;
  if (shorter.size() > kLongestName) shorter = fmt::format("{:016x}{}", std::hash<std::string>()(name), short_ending);
  std::error_code problem;
  fs::create_directories(directory_, problem);
  const std::string line = shorter + "," + name + "\n";
  const Result<Fd> list = open_output(directory_ / kShortNames, OutputMode::append);
  if (list) write_all(list->get(), line.data(), line.size());
  return directory_ / shorter;
}

void DetailFiles::remove_old() const {
  const auto is_ours = [&](const std::string& name) {
    return name == prefix_ + "_summary.txt" || name == prefix_ + ".npy" ||
           (name.starts_with(prefix_ + "_") && (name.ends_with(".csv") || name.ends_with(".npy")));
  };
  std::error_code problem;
  std::vector<fs::path> old;
  for (fs::directory_iterator entry(directory_, problem), end; !problem && entry != end; entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    if (name != kShortNames && is_ours(name)) old.push_back(entry->path());
  }
  // Also removes files under shorter names, and their lines in the list of these.
  std::string kept;
  const Result<std::string> short_names = read_whole_file(directory_ / kShortNames, kLongestList);
  std::istringstream list(short_names ? *short_names : "");
  for (std::string line; std::getline(list, line);) {
    const std::size_t comma = line.find(',');
    if (comma != std::string::npos && is_ours(line.substr(comma + 1))) {
      // A list from another writer may name files elsewhere.
      if (line.find('/') == std::string::npos) old.push_back(directory_ / line.substr(0, comma));
    } else {
      kept += line + "\n";
    }
  }
  if (short_names) {
    if (kept.empty()) {
      fs::remove(directory_ / kShortNames, problem);
    } else {
      const Result<Fd> rest = open_output(directory_ / kShortNames, OutputMode::rewrite);
      if (rest) write_all(rest->get(), kept.data(), kept.size());
    }
  }
  for (const fs::path& path : old) fs::remove(path, problem);
}

Outcome<bool> DetailFiles::write_array(const Aligned& aligned) const {
  const Array& array = aligned.left;
  std::string bytes = numpy_header(array.dtype, aligned.shape);
  if (bytes.empty()) {
    return Failure{Code::unsupported_type, fmt::format("{} has no npy form", info(array.dtype).lower)};
  }
  const auto elements = static_cast<std::size_t>(array.elements());
  const std::size_t head = bytes.size();
  bytes.resize(head + elements * info(array.dtype).file_bytes);
  if (npy_needs_widening(array.dtype, false)) {
    widen_for_npy(array.dtype, array.data, elements, reinterpret_cast<std::byte*>(bytes.data() + head));
  } else if (elements > 0) {
    std::memcpy(bytes.data() + head, array.data, elements * info(array.dtype).item_bytes);
  }
  return write_result(file(".npy", ".npy"), bytes);
}

Outcome<bool> DetailFiles::write_elements(const ElementErrors& errors, const Aligned& aligned,
                                          const std::string& header, const Threads& threads) const {
  constexpr std::int64_t kPart = 50000;  // lines that one thread writes at a time
  const std::int64_t count = aligned.left.elements();
  for (std::int64_t first = 0; first == 0 || first < count; first += single_.most_lines) {
    const std::int64_t last = std::min(first + single_.most_lines, count);
    std::vector<std::string> parts(static_cast<std::size_t>((last - first + kPart - 1) / kPart));
    threads.for_each(parts.size(), [&](std::size_t part) {
      const std::int64_t begin = first + static_cast<std::int64_t>(part) * kPart;
      for (std::int64_t i = begin; i < std::min(begin + kPart, last); ++i) {
        add_element(parts[part], i, errors.at(i), aligned.shape, errors.are_bools());
      }
    });
    std::string text = header;
    for (const std::string& part : parts) text += part;
    const std::string ending = fmt::format("_{}.csv", first);
    if (Outcome<bool> written = write_result(file(ending, ending), text); !written) return written;
  }
  return true;
}

Outcome<bool> DetailFiles::write_tops(const ElementErrors& errors, const Aligned& aligned, const Summary& summary,
                                      const std::string& header, const Log& log) const {
  const auto write_one = [&](std::string_view type, std::string_view title, const std::vector<std::int64_t>& indexes) {
    std::vector<std::string> lines = {header};
    for (const std::int64_t i : indexes) {
      ElementError e = errors.at(i);
      if (std::isinf(e.absolute)) e.absolute = std::numeric_limits<double>::quiet_NaN();
      const bool is_bool = errors.are_bools();
      lines.push_back(without_words(
          fmt::format("{},{},{}\t,{}\t,{}\t,{}\t\n", i, place_text(i, aligned.shape),
                      is_bool ? bool_text(e.left) : fixed(e.left), is_bool ? bool_text(e.right) : fixed(e.right),
                      is_bool ? "nan" : fixed(e.absolute), is_bool ? "nan" : fixed(e.relative))));
    }
    log.print("\n\n");
    log.info(fmt::format("{} TopN", title));
    log.print(as_table(lines));
    const std::string ending = fmt::format("_{}_error_topn.csv", type);
    return write_result(file(ending, ending), fmt::format("{}", fmt::join(lines, "")));
  };
  if (Outcome<bool> written = write_one("absolute", "Absolute Error", summary.top_absolute); !written) return written;
  return write_one("relative", "Relative Error", summary.top_relative);
}

Outcome<bool> DetailFiles::write_summary(const Summary& summary, const DetailNames& names, bool are_bools) const {
  const auto number = [&](double value) { return are_bools ? std::string("-") : fixed(value); };
  return write_result(
      file("_summary.txt", "_summary.txt"),
      fmt::format("TotalCount:{}\nNPUDump:{}\nGroundTruth:{}\nFormat:{}\nMinAbsoluteError:{}\nMaxAbsoluteError:{}\n"
                  "MinRelativeError:{}\nMaxRelativeError:{}\n",
                  summary.count, names.left_ops, names.right_ops, names.axes, number(summary.least_absolute),
                  number(summary.most_absolute), number(summary.least_relative), number(summary.most_relative)));
}

Outcome<bool> DetailFiles::write(const Aligned& aligned, const DetailNames& names, const Threads& threads,
                                 const Log& log) const {
  remove_old();
  if (Outcome<bool> written = write_array(aligned); !written) return written;
  const ElementErrors errors(aligned.left, aligned.right);
  const std::string header = fmt::format("Index,{},NPUDump,GroundTruth,AbsoluteError,RelativeError\n", names.axes);
  const Summary summary(errors, aligned.left.elements(), single_.top);
  if (errors.are_bools()) log.warning("bool: absolute and relative errors do not exist");
  if (Outcome<bool> written = write_summary(summary, names, errors.are_bools()); !written) return written;
  if (!single_.without_elements) {
    if (Outcome<bool> written = write_elements(errors, aligned, header, threads); !written) return written;
  }
  if (Outcome<bool> written = write_tops(errors, aligned, summary, header, log); !written) return written;
  log.info(fmt::format("The details have been written to '{}'.", directory_.string()));
  return true;
}

}  // namespace sonde::msaccucmp
