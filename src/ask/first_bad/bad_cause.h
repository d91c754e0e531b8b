// BadCause: explains NaN or an infinity that an op made from its inputs, by their values if the dump has them, else by
// statistics.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ask/finding/finding.h"
#include "ask/first_bad/value_flow.h"
#include "read/measure/health.h"
#include "read/measure/slot_values.h"
#include "read/operators/op_questions.h"
#include "read/operators/op_work.h"

namespace sonde {

struct Cause {
  bool overflow = false;           // the true value is finite but does not fit the type
  bool explained = false;          // false: the recorded inputs do not explain it
  bool pole = false;               // the true value is infinite: a division by 0, log of 0
  bool impossible = false;         // the recorded input values give a finite result, which fits the type
  bool divides_by_zero = false;    // an input, or a part of it, is 0, or no element is left
  bool makes_nan_of_zero = false;  // 0 divided by 0, 0 times infinity
  std::string why;
  std::vector<NamedValue<double>> numbers;
  std::vector<std::string> evidence, limits;
};

// One op with the known data of its slots. Values are opened at first use.
class OpValues {
 public:
  OpValues(const CatalogRank& rank, const ValueFlow& flow, const FlowOp& op, const CatalogTensor* output,
           HealthReader& health);

  const CatalogOp& op() const { return *op_.op; }
  const FlowOp& flow() const { return op_; }
  const std::string& type() const { return type_; }
  OpWork work() const { return work_of(type_); }
  OpWork work_on_one() const { return work_of(single_type_of_plain(type_)); }  // of `_foreach_…`: on one of its lists
  const CatalogTensor* output() const { return output_; }
  DType output_type();  // a file of a free name says it in its head

  const CatalogTensor* input(std::uint32_t slot) const;  // null: none
  const SlotValues* input_values(std::uint32_t slot);    // null: not in the dump
  const SlotValues* output_values();
  std::optional<KnownStatistics> statistics(const CatalogTensor& tensor);
  bool is_recorded(std::uint32_t slot) const;
  bool is_bad(const CatalogTensor& tensor) const;  // it holds NaN or infinities
  bool reads_bad() const;                          // an input that it reads holds NaN or infinities
  bool has_values();                               // of the output and of every input that is read

  // Named arguments of the call: `dim`, `exponent`, `alpha`.
  std::optional<double> number(std::string_view attribute) const;
  std::vector<std::int64_t> integers(std::string_view attribute) const;
  std::string_view text(std::string_view attribute) const;  // empty: none

 private:
  const CatalogRank& rank_;
  const ValueFlow& flow_;
  const FlowOp& op_;
  const CatalogTensor* output_;
  HealthReader& health_;
  std::string type_;
  using Opened = std::pair<const CatalogTensor*, std::optional<SlotValues>>;
  const SlotValues* values_of(const CatalogTensor& tensor);
  std::deque<Opened> opened_;  // pointers into it are handed out
};

Cause cause_of(OpValues& values, BadKind bad);

// Its parts; each returns false if it does not know the op. In elementwise_cause.cpp, row_cause.cpp, product_cause.cpp:
bool elementwise_cause(OpValues& values, BadKind bad, Cause& cause);
bool row_cause(OpValues& values, BadKind bad, Cause& cause);
bool product_cause(OpValues& values, BadKind bad, Cause& cause);
// In shape_cause.cpp, from shapes and counts:
bool shape_cause(OpValues& values, BadKind bad, Cause& cause);
// From statistics alone.
bool statistics_cause(OpValues& values, BadKind bad, Cause& cause);

// "float16 holds at most 65504; float32 would hold it", and its numbers. `value` is the true result, or what it is at
// most.
enum class Exactness : std::uint8_t { exact, bound };
void explain_overflow(DType type, double value, Cause& cause, Exactness exactness = Exactness::exact);
bool overflows(DType type, double value);

}  // namespace sonde
