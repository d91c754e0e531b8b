// Two files: .npy, or .txt as numpy.loadtxt reads it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "ground/base/text.h"
#include "ground/files/mapped_file.h"
#include "guests/msaccucmp/comparison.h"

namespace sonde::msaccucmp {
namespace {

Failure no_table(const std::filesystem::path& file, std::size_t line, std::string_view what) {
  return {Code::invalid_dump_data, fmt::format("'{}', line {}: {}", file.string(), line, what)};
}

// Numbers between blanks; `#` begins a comment; all lines have the same number of them.
Outcome<Array> read_text(const std::filesystem::path& file) {
  const Result<MappedFile> mapped = MappedFile::open(file);
  if (!mapped) return Failure{Code::invalid_dump_data, mapped.error().message};
  auto values = std::make_shared<std::vector<double>>();
  std::int64_t rows = 0, columns = 0;
  std::size_t line_number = 0;
  for (std::string_view rest = mapped->text(); !rest.empty();) {  // not split(): it may have a line for each element
    const std::string_view whole = take_field(rest, '\n');
    const std::string line(whole.substr(0, whole.find('#')));
    ++line_number;
    std::int64_t found = 0;
    for (const char* at = line.c_str();;) {
      at += std::string_view(at).find_first_not_of(" \t\r") == std::string_view::npos
                ? std::string_view(at).size()
                : std::string_view(at).find_first_not_of(" \t\r");
      if (*at == '\0') break;
      char* stop = nullptr;
      const double value = std::strtod(at, &stop);
      if (stop == at) return no_table(file, line_number, fmt::format("'{}' is not a number", at));
      values->push_back(value);
      ++found;
      at = stop;
    }
    if (found == 0) continue;
    if (rows > 0 && found != columns) {
      return no_table(file, line_number, fmt::format("{} numbers, the lines before have {}", found, columns));
    }
    columns = found;
    ++rows;
  }
  Array array{DType::float64, {rows, columns}, reinterpret_cast<const std::byte*>(values->data()), values};
  std::erase(array.shape, 1);  // as in NumPy's squeeze
  if (rows == 0) array.shape = {0};
  return array;
}

Outcome<Array> read_file(const std::filesystem::path& file) {
  if (file.extension() == ".txt") return read_text(file);
  Outcome<DumpOp> op =
      file.extension() == ".npy"
          ? read_dump_file(file)
          : Failure{Code::invalid_dump_data, fmt::format("'{}' is neither .npy nor .txt", file.string())};
  if (!op) return op.failure();
  if (op->outputs[0].problem) return *op->outputs[0].problem;
  return std::move(op->outputs[0].array);
}

// Names above values, column by column.
void log_values(const std::vector<Choice>& algorithms, const std::vector<std::string>& values, const Log& log) {
  std::string title, line;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t width = std::max(title.size(), line.size());
    title.resize(width, ' ');
    line.resize(width, ' ');
    title += algorithms[i].name + " ";
    line += values[i] + " ";
  }
  log.info(title);
  log.info(line);
}

}  // namespace

Code compare_files(const CompareOptions& options, bool save, const Log& log) {
  const auto fail = [&](const Failure& failure) {
    log.error(failure.reason);
    return failure.status;
  };
  const Outcome<Array> left = read_file(options.left);
  if (!left) return fail(left.failure());
  const Outcome<Array> right = read_file(options.right);
  if (!right) return fail(right.failure());
  if (left->shape != right->shape) {
    return fail(
        {Code::invalid_shape, fmt::format("'{}' is {}, '{}' is {}: cannot be compared", options.left.string(),
                                          bracketed(left->shape), options.right.string(), bracketed(right->shape))});
  }
  Comparison comparison{options, log, {}, {}, {}, {}, nullptr, Threads(options.threads)};
  if (std::ranges::any_of(options.algorithms, [](const Choice& choice) { return !choice.builtin; })) {
    auto custom = CustomAlgorithms::start(options.custom_directory, options.algorithm_options);
    if (!custom) return fail(custom.failure());
    comparison.custom = std::move(*custom);
  }
  Row row;
  const Hands hands{comparison.threads.runner(), static_cast<unsigned>(comparison.threads.count())};
  fill_values(comparison, {*left, *right, left->shape}, left->shape, options.left.string(), options.right.string(),
              hands, row);
  log_values(options.algorithms, row.values, log);
  if (!row.reason.empty()) log.info(row.reason);
  if (!save) return Code::ok;
  std::string text;
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    text += fmt::format("{}: {}\n", options.algorithms[i].name, row.values[i]);
  }
  const std::filesystem::path file = options.output / fmt::format("file_result_{}.txt", now_digits());
  if (const Outcome<bool> written = write_result(file, text); !written) return fail(written.failure());
  log.info(fmt::format("The result has been written to '{}'.", file.string()));
  return Code::ok;
}

}  // namespace sonde::msaccucmp
