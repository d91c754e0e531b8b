// -advisor: the first thing in a result that deserves attention.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "guests/msaccucmp/comparison.h"

namespace sonde::msaccucmp {
namespace {

constexpr double kGoodCosine = 0.99;

struct Advice {
  std::string_view type = "NA";
  std::string index = "NA";
  std::string_view text = "NA";
};

struct Judged {
  const Row* row;
  double cosine;
};

// Rows whose cosine similarity is a finite number.
std::vector<Judged> judged(const Comparison& comparison, const std::vector<Row>& rows) {
  std::vector<Judged> result;
  const std::vector<std::string>& names = comparison.columns.algorithms;
  const auto place = std::ranges::find(names, name_of(Algorithm::cosine_similarity));
  if (place == names.end()) return result;
  const auto column = static_cast<std::size_t>(place - names.begin());
  for (const Row& row : rows) {
    if (column >= row.values.size()) continue;
    const double value = std::strtod(row.values[column].c_str(), nullptr);
    if (!std::isnan(value)) result.push_back({&row, value});
  }
  return result;
}

Advice advice_on(const Comparison& comparison, const std::vector<Row>& rows) {
  const auto overflown = std::ranges::find(rows, "YES", &Row::overflow);
  if (overflown != rows.end()) {
    return {"FP16 Overflow", fmt::format("{}", overflown->index),
            "A float16 tensor reached the largest value of its type. Remove the overflow, then compare again."};
  }
  const std::vector<Judged> known = judged(comparison, rows);
  const auto is_bad = [](const Judged& entry) { return entry.cosine < kGoodCosine; };
  for (const std::string& node : comparison.rules.data_nodes) {
    const auto bad =
        std::ranges::find_if(known, [&](const Judged& entry) { return is_bad(entry) && entry.row->left == node; });
    if (bad == known.end()) continue;
    return {"Input Inconsistent", fmt::format("{}", bad->row->index),
            "The two models were given different inputs. Give both the same data, or look at the preprocessing."};
  }
  if (known.empty()) return {};
  const auto bad = std::ranges::find_if(known, is_bad);
  if (bad == known.end()) {
    return {"Global Consistency", "NA",
            "Every tensor agrees. If the model's results are wrong anyway, look at the use of its "
            "outputs."};
  }
  return {"Global Consistency", fmt::format("{}", bad->row->index),
          is_bad(known.back()) ? "Some tensors differ and so does the last one: the model's result is wrong. Begin at "
                                 "this operator; quantisation is a frequent reason."
                               : "Some tensors differ, but the last one agrees: the deviation stays inside the model, "
                                 "as after a fusion. It can be left as it is."};
}

}  // namespace

void advise(const Comparison& comparison, const std::vector<Row>& rows) {
  const Advice advice = advice_on(comparison, rows);
  const std::string text = fmt::format("Detection Type: {}\nOperator Index: {}\nExpert Advice: {}\n", advice.type,
                                       advice.index, advice.text);
  const std::filesystem::path file = comparison.options.output / "advisor_summary.txt";
  if (const Outcome<bool> written = write_result(file, text); !written) {
    comparison.log.error(written.failure().reason);
    return;
  }
  comparison.log.info(fmt::format("Detection Type: {}", advice.type));
  comparison.log.info(fmt::format("Operator Index: {}", advice.index));
  comparison.log.info(fmt::format("Expert Advice: {}", advice.text));
  comparison.log.info(fmt::format("The advice has been written to '{}'.", file.string()));
}

}  // namespace sonde::msaccucmp
