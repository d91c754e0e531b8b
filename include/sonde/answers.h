// The answers of the analyses. Made from contract/ by tools/contract.py: a change here is lost.
//
// An answer owns its texts. Its members have the names that they have in JSON (docs/json/) and in Python.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sonde/dims.h"
#include "sonde/dtype.h"
#include "sonde/dump.h"
#include "sonde/export.h"
#include "sonde/known_statistics.h"
#include "sonde/step.h"

namespace sonde {

// A value with its name.
template <typename Value>
struct NamedValue {
  std::string name;
  Value value{};
};

enum class DifferenceTag : std::uint8_t { uncertain };
SONDE_EXPORT std::string_view word_of(DifferenceTag value);

enum class Side : std::uint8_t { input, output };
SONDE_EXPORT std::string_view word_of(Side value);

enum class ComparisonBasis : std::uint8_t { values, statistics };
SONDE_EXPORT std::string_view word_of(ComparisonBasis value);

enum class RunState : std::uint8_t { killed, stopped, running };
SONDE_EXPORT std::string_view word_of(RunState value);

enum class Severity : std::uint8_t { error, warning, note };
SONDE_EXPORT std::string_view word_of(Severity value);

// A tensor of the target beside its counterpart, with the errors that were measured. A bound that does not apply is
// left out.
struct TensorPair {
  Side side = Side::input;  // whether the operator reads or writes it
  std::uint32_t slot = 0;   // its number on its side
  // the parameter, gradient, state or input data that the tensor is; empty: none
  std::string parameter;
  std::string dtype;                                  // the type of the elements; `?`: only a file has it
  std::vector<std::int64_t> shape;                    // sizes in the target
  std::vector<std::int64_t> golden_shape;             // sizes in the golden dump
  std::string compared_by;                            // `values`, `statistics`, `hash`; empty: not at all
  bool equal = false;                                 // equal to the last bit, as far as was compared
  bool beyond = false;                                // further apart than the bounds allow
  std::optional<std::uint32_t> golden_slot;           // the number on the golden side, where it is another one
  std::string problem;                                // why it could not be compared
  std::string note;                                   // what else is known of the pair
  std::optional<double> relative_error;               // the norm of the difference over the golden norm
  std::optional<double> rms_error;                    // the root of the mean square of the difference
  std::optional<double> max_error;                    // the largest difference
  std::optional<double> golden_rms;                   // the root of the mean square of the golden values
  std::optional<std::uint64_t> different_non_finite;  // elements that are NaN or infinite on one side, or differ in it
  std::optional<double> cosine;                       // the cosine of both as vectors
  std::optional<std::uint64_t> elements;              // elements
  std::optional<std::uint64_t> mismatches;            // elements beyond the bounds that were given
  std::optional<std::uint64_t> worst_index;           // the flat index of the largest error
  std::optional<double> worst_value;                  // the value of the target at the largest error
  std::optional<double> worst_golden;                 // the golden value there
  std::optional<double> rounding_rms;                 // the error that rounding explains, as root of the mean square
  std::optional<double> rounding_max;                 // the largest error that rounding explains
  // the error that the errors of the inputs explain, as root of the mean square
  std::optional<double> propagated_rms;
  std::optional<double> propagated_max;  // the largest error that they explain
};

// A place where the target's run differs from the golden one.
struct Difference {
  std::string kind;                 // `op`, `parameter`, `data`, `inserted`, …: docs/compare.md, "What is found"
  std::uint32_t rank = 0;           // the number of the process
  std::uint32_t graph = 0;          // 0 for training, 1 for evaluation
  std::uint64_t step = 0;           // the number of the step
  std::string op_name;              // the operator to look at: of the golden dump if `in_golden`
  std::string op_type;              // the type of the operator
  std::string source_file;          // the file of the user's program; empty: unknown
  std::uint32_t source_line = 0;    // the line in it; 0: unknown
  bool in_golden = false;           // the operator is in the golden dump alone
  std::string golden;               // the operators that it was compared with
  std::string text;                 // the difference in one line
  std::vector<DifferenceTag> tags;  // `uncertain`: the text names the evidence that would settle it
  // the target's tensor is so many times the golden one; without it there is no one factor
  std::optional<double> factor;
  std::optional<TensorPair> tensor;     // the tensor with the error
  std::vector<std::string> attributes;  // arguments of the operators that differ
};

// The error that a layer introduces.
struct Layer {
  std::string layer;                                      // the path of the module
  std::uint32_t rank = 0;                                 // the number of the process
  std::uint32_t graph = 0;                                // 0 for training, 1 for evaluation
  std::uint64_t step = 0;                                 // the number of the step
  std::string op_name;                                    // the operator whose output was compared
  ComparisonBasis compared_by = ComparisonBasis::values;  // what was compared
  double introduced = 0;                                  // the root of `error_out` squared less `error_in` squared
  double error_in = 0;                                    // the relative error of its inputs
  double error_out = 0;                                   // the relative error of its outputs
  double signal_to_noise_db = 0;                          // 20 log10 of 1 / `error_out`
};

// An operator of the target with its counterpart, or one of them alone.
struct OperatorPair {
  std::uint32_t rank = 0;           // the number of the process
  std::uint32_t graph = 0;          // 0 for training, 1 for evaluation
  std::uint64_t step = 0;           // the number of the step
  std::string verdict;              // how the operator compares with its counterpart
  std::vector<std::string> target;  // operators of the target, by full name
  std::vector<std::string> golden;  // operators of the golden dump, by full name
  std::string op_type;              // the type of the operator
  std::string kind;                 // the kind of operator, whose rounding is expected
  std::string matched_by;           // how the counterpart was found
  std::string source_file;          // the file of the user's program; empty: unknown
  std::uint32_t source_line = 0;    // the line in it; 0: unknown
  std::string function;             // the function around the line
  std::vector<TensorPair> inputs;   // tensors that it reads
  std::vector<TensorPair> outputs;  // tensors that it writes
  bool moved = false;               // it runs at another place than its counterpart, among the pairs of the step
  std::string reason;               // why it has this verdict, or no counterpart
  std::string nearest;              // the operator on the other side that is most like it
};

// The operators of two dumps, and the first that introduces an error beyond its rounding.
struct Comparison {
  bool complete = false;                           // everything was looked at: without a finding, nothing is wrong
  std::vector<Difference> findings;                // the earliest error first
  std::vector<NamedValue<std::uint64_t>> summary;  // the number of operators with each verdict
  // the relative tolerance that was given; null: it is derived for each operator
  std::optional<double> rtol;
  std::optional<double> atol;                // the absolute tolerance that was given; null: it is derived
  std::vector<std::string> notes;            // ranks and steps that only one dump has
  std::optional<std::vector<Layer>> layers;  // with `--layers`: the largest first
  std::vector<OperatorPair> ops;             // every operator
  // what could not be read, or not wholly; the rest was looked at all the same
  std::vector<DumpProblem> problems;
  std::vector<std::string> warnings;  // other facts that the user should know, as on standard error
};

// A tensor that was written, or that could not be converted.
struct ConvertedTensor {
  std::string from;                    // the file that it comes from
  std::string to;                      // the file that was written
  std::optional<std::uint64_t> bytes;  // bytes of the tensor
  std::string lost;                    // the tensor that was not written; absent: the whole file
  std::string why;                     // why not
};

// Tensors of binary files in another format.
struct ConvertedFiles {
  std::vector<ConvertedTensor> files;  // a row for each tensor
  std::vector<DumpProblem> problems;   // what could not be read, or not wholly; the rest was looked at all the same
  std::vector<std::string> warnings;   // other facts that the user should know, as on standard error
};

// A rank whose last run did not end the recording itself: nobody knows what came after.
struct UnfinishedRun {
  RunState state = RunState::killed;           // `stopped`: an error ended the recording, and the program went on
  std::uint32_t rank = 0;                      // the number of the process
  std::string dump;                            // the dump of the rank, if the path holds several
  std::uint32_t graph = 0;                     // 0 for training, 1 for evaluation
  std::uint64_t step = 0;                      // the last one
  bool in_step = false;                        // false: the step had ended
  std::string reason;                          // the error that stopped the recording; otherwise empty
  std::optional<std::uint64_t> complete_step;  // the last step of this graph that ended; null: none did
};

// A tensor that a finding is about, or points to.
struct FindingTensor {
  std::string op_name;      // the operator; empty: nothing in the dump made the tensor
  std::string op_type;      // the type of the operator
  Side side = Side::input;  // whether the operator reads or writes it
  std::uint32_t slot = 0;   // its number on its side
  // the parameter, gradient, state or input data that the tensor is; empty: none
  std::string parameter;
  DType dtype = DType::undefined;             // the type of the elements; null: the dump does not have it
  std::optional<Dims> shape;                  // sizes; null: the dump does not have them
  std::optional<KnownStatistics> statistics;  // those that the dump has
  std::string tensor_file;                    // the file with the values
};

// A line of the user's program.
struct Line {
  std::uint32_t number = 0;  // from 1
  std::string text;          // without its end
};

// A line of the user's program, with its neighbours where the text is there.
struct Code {
  std::string source_file;        // the file of the user's program; empty: unknown
  std::uint32_t source_line = 0;  // the line in it; 0: unknown
  std::string function;           // the function around the line
  std::vector<Line> lines;        // the line and its neighbours
};

// Something wrong: its place, its numbers, the reason and the evidence.
struct Finding {
  std::string kind;                         // what was found, in a word of the verb's list
  Severity severity = Severity::error;      // `error` and `warning` give exit status 1, `note` none
  std::uint32_t rank = 0;                   // the number of the process
  std::string dump;                         // the dump of the rank, if the path holds several
  std::uint32_t graph = 0;                  // 0 for training, 1 for evaluation
  std::uint64_t step = 0;                   // the number of the step
  Phase phase = Phase::forward;             // when the operator ran
  std::string op_name;                      // the operator that is to blame
  std::string op_type;                      // the type of the operator
  std::vector<std::string> tags;            // further properties: `backward_only`, `one_rank_only`, `uncertain`
  std::string why;                          // the reason, in a sentence
  FindingTensor tensor;                     // the wrong tensor
  std::vector<NamedValue<double>> numbers;  // the numbers that the sentence rests on, by name
  std::vector<std::string> evidence;        // the observed facts, a line each
  std::vector<std::string> limits;          // the facts that this dump cannot show, a line each
  Code code;                                // the line of the operator
};

// A rank and graph where a healthy infinity is.
struct HealthyPlace {
  std::uint32_t rank = 0;   // the number of the process
  std::string dump;         // the dump of the rank, if the path holds several
  std::uint32_t graph = 0;  // 0 for training, 1 for evaluation
  std::string steps;        // steps, as `--step` takes them: `0-2|5`
};

// An infinity that is intended, or does no harm: an operator removes it before it matters.
struct HealthyInfinity {
  FindingTensor tensor;              // where it is first
  std::uint32_t rank = 0;            // the rank where it is first
  std::uint32_t graph = 0;           // 0 for training, 1 for evaluation
  std::uint64_t step = 0;            // the number of the step
  std::vector<HealthyPlace> places;  // all its places
  std::string how;                   // `placed`, `computed` or `from outside`
  // the operators that remove it, by full name; empty: no operator in the dump reads it
  std::vector<std::string> absorbed_by;
  Code code;  // the line of the operator
};

// The value of one step.
struct GrowthPoint {
  std::uint64_t step = 0;  // the number of the step
  double value = 0;        // the norm, or the largest magnitude
};

// The first tensor that rose to ten times its earlier median and stayed there. No state of an optimizer is one.
struct Growth {
  FindingTensor tensor;             // the tensor
  std::uint32_t rank = 0;           // the number of the process
  std::uint64_t step = 0;           // the number of the step
  double before = 0;                // the median of the steps before
  double now = 0;                   // the value of this step
  bool of_norm = false;             // false: largest magnitudes, since the dump has no norm
  std::vector<GrowthPoint> series;  // the value of each step
  Code code;                        // the line of the operator
};

// The scope of the analysis.
struct LookedAt {
  std::uint64_t ranks = 0;             // ranks
  std::uint64_t steps = 0;             // steps
  std::uint64_t ops = 0;               // operators
  std::uint64_t ops_not_recorded = 0;  // of `ops`: only their place in the graph is known
  std::uint64_t tensors = 0;           // tensors
  std::uint64_t files_read = 0;        // files that were opened
};

// The first operator whose output holds a NaN or an infinity that matters.
struct FirstBad {
  // all that was recorded was looked at: without a finding, nothing in it is wrong; false if the recording ended
  // early
  bool complete = false;
  std::vector<UnfinishedRun> unfinished;  // ranks whose last run has not ended the recording itself
  std::optional<Finding> first;           // the answer; null: nothing was found
  std::vector<Finding> findings;          // the answer, then others of its step that it does not cause
  // the first finding of each rank that its own operators caused, the answer's rank first
  std::vector<Finding> by_rank;
  std::string reaches;                   // where it matters: `the loss`, `a gradient`
  std::vector<std::string> path;         // the operators from the answer to where it matters, by full name
  std::vector<Finding> expected;         // findings of a loss scaler, which skipped the step
  std::vector<Finding> asides;           // notes: metrics and numbers that are printed, which no training reads
  std::vector<HealthyInfinity> healthy;  // of the step of the answer, or of all steps where there is none
  std::uint64_t healthy_left_out = 0;    // healthy infinities that are not in the list
  std::optional<Growth> growth;          // "grew first"; null: no tensor
  std::vector<std::string> suspects;     // operators whose tensors would show more in another run
  std::vector<std::string> notes;        // how the verb filled gaps of the dump, and what it left out
  LookedAt looked_at;                    // the scope of the analysis
  bool only_overflows = false;           // the dump holds nothing but operators that overflowed
  std::vector<DumpProblem> problems;     // what could not be read, or not wholly; the rest was looked at all the same
  std::vector<std::string> warnings;     // other facts that the user should know, as on standard error
};

// A run of a rank.
struct ListedRun {
  bool finished = false;            // it ended the recording itself
  std::string host;                 // the machine
  std::string command;              // the command
  std::string layout;               // the layout of directories and files
  std::string saved_data;           // `tensor`, `statistic` or `full`
  std::string net_name;             // the name of the network in the configuration
  std::string error;                // the error that stopped the recording; empty: none
  std::uint64_t pid = 0;            // the number of the process
  std::uint64_t started_us = 0;     // its begin, in microseconds since 1970
  std::uint64_t ended_us = 0;       // its end, in microseconds since 1970; 0: it has none
  std::uint64_t bytes_read = 0;     // bytes of tensors that were read
  std::uint64_t bytes_written = 0;  // bytes of files
  std::vector<std::string> notes;   // what the run says of itself
};

// A step of a rank.
struct ListedStep {
  std::uint32_t graph = 0;       // 0 for training, 1 for evaluation
  std::uint64_t step = 0;        // the number of the step
  std::uint64_t run = 0;         // the number of the run in its rank
  bool ended = false;            // the step was recorded to its end
  std::uint64_t started_us = 0;  // its begin, in microseconds since 1970
  std::uint64_t ended_us = 0;    // its end, in microseconds since 1970; 0: it has none
  std::uint64_t ops = 0;         // operators
  std::uint64_t parameters = 0;  // parameters, and data from outside
  std::uint64_t tensors = 0;     // tensors
  std::uint64_t files = 0;       // files
  std::uint64_t bytes = 0;       // bytes of files
};

// A rank of a dump.
struct ListedRank {
  std::uint32_t rank = 0;         // the number of the process
  std::string dump;               // the dump of the rank, if the path holds several
  std::string directory;          // the directory of the rank
  bool has_journal = false;       // the rank has a journal of Sonde's
  std::vector<ListedRun> runs;    // the oldest first
  std::vector<ListedStep> steps;  // in the order of the runs
};

// An operator, with `--ops`, over all steps.
struct ListedOp {
  std::string op_name;            // the full name of the operator
  std::string op_type;            // the type of the operator
  std::string scope;              // the modules around it; empty: unknown
  Phase phase = Phase::forward;   // when the operator ran
  bool is_parameter = false;      // a parameter, not an operator
  std::uint64_t inputs = 0;       // tensors that it reads
  std::uint64_t outputs = 0;      // tensors that it writes
  std::uint64_t times = 0;        // steps that have it, in all ranks
  std::uint64_t tensors = 0;      // recorded tensors
  std::string source_file;        // the file of the user's program; empty: unknown
  std::uint32_t source_line = 0;  // the line in it; 0: unknown
  std::string function;           // the function around the line
};

// A slot of an operator, with the step and the operator that it belongs to.
struct ListedTensor {
  std::uint32_t rank = 0;        // the number of the process
  std::uint32_t graph = 0;       // 0 for training, 1 for evaluation
  std::uint64_t step = 0;        // the number of the step
  std::string op_name;           // the full name of the operator
  std::string op_type;           // the type of the operator
  std::string scope;             // the modules around it; empty: unknown
  Phase phase = Phase::forward;  // when the operator ran
  bool is_parameter = false;     // a parameter, not an operator
  Side side = Side::input;       // whether the operator reads or writes it
  std::uint32_t slot = 0;        // its number on its side
  // the parameter, gradient, state or input data that the tensor is; empty: none
  std::string parameter;
  std::string dtype;                               // the type of the elements; `?`: only a file has it
  std::optional<std::uint64_t> run;                // the number of the run in its rank; without it, the first
  std::string dump;                                // the dump of the rank, if the path holds several
  std::string key;                                 // the name of the tensor in its file
  bool is_module = false;                          // a module's inputs and outputs, not an operator's
  std::optional<std::vector<std::int64_t>> shape;  // sizes; null: only a file has them
  std::optional<KnownStatistics> statistics;       // those that the dump has
  std::string md5;                                 // the MD5 of the bytes
  std::string sha1;                                // the SHA-1 of the bytes
  std::string skipped;                             // why the values were not recorded
  std::string tensor_file;                         // the file with the values
  std::string source_file;                         // the file of the user's program; empty: unknown
  std::uint32_t source_line = 0;                   // the line in it; 0: unknown
  std::string function;                            // the function around the line
  std::uint64_t timestamp_us = 0;                  // when it was read, in microseconds since 1970
};

// Tensors whose memory changed although no operator wrote it.
struct StompReport {
  bool complete = false;                // everything was looked at: without a finding, nothing is wrong
  std::vector<Finding> findings;        // of each tensor the first change and, of a watcher, each further one
  std::uint64_t findings_left_out = 0;  // changes that are not in the list
  std::uint64_t compared = 0;           // reads that were compared with the written values
  std::uint64_t watched = 0;            // of those, by the watcher
  std::uint64_t not_observable = 0;     // reads that were saved, since no operator had written the memory
  std::uint64_t not_known = 0;          // reads without values or statistics of both sides
  std::vector<DumpProblem> problems;    // what could not be read, or not wholly; the rest was looked at all the same
  std::vector<std::string> warnings;    // other facts that the user should know, as on standard error
};

// A parameter of a condition, with the value of the tensor.
struct JudgedValue {
  std::string name;                    // its name
  double value = 0;                    // the bound
  std::optional<double> actual_value;  // the value of the tensor; null: there is nothing to compare with it
  bool is_hit = false;                 // the bound is met
  std::optional<double> at_least;      // a bound that decides it, where the value is not known
  std::optional<double> at_most;       // a bound that decides it, where the value is not known
};

// A tensor that meets a condition, or one that could not be judged.
struct WatchFinding {
  std::string condition;     // its id: `tensor_overflow`
  std::uint64_t tensor = 0;  // its number in the dump: `sonde.open(path).tensors[tensor]`
  std::uint32_t rank = 0;    // the number of the process
  std::uint32_t graph = 0;   // 0 for training, 1 for evaluation
  std::uint64_t step = 0;    // the number of the step
  std::string op_name;       // the full name of the operator
  Side side = Side::input;   // whether the operator reads or writes it
  std::uint32_t slot = 0;    // its number on its side
  // the setting of the watchpoint and the values of the tensor, or why it could not be judged
  std::string detail;
  std::vector<JudgedValue> parameters;         // those of the condition
  std::optional<std::uint64_t> previous_step;  // the step that it was compared with; null: none
};

// Tensors that meet a condition.
struct WatchFindings {
  std::vector<WatchFinding> hits;        // by the time at which tensors were written
  std::vector<WatchFinding> not_judged;  // in the order of the dump
  std::vector<std::string> notes;        // conditions without a tensor to watch, and steps without the step before
  bool complete = false;                 // every tensor was judged: without a hit, no condition is met
  std::vector<DumpProblem> problems;     // what could not be read, or not wholly; the rest was looked at all the same
  std::vector<std::string> warnings;     // other facts that the user should know, as on standard error
};

}  // namespace sonde
