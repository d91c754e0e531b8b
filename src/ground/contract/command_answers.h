// Answers that the command alone gives. Made from contract/ by tools/contract.py: a change here is lost.
#pragma once

#include "sonde/answers.h"

namespace sonde {

// Any JSON, as text.
struct JsonText {
  std::string text = "null";
};

enum class RemarkSeverity : std::uint8_t { error, warning };
std::string_view word_of(RemarkSeverity value);

enum class Reordered : std::uint8_t { lines, characters };
std::string_view word_of(Reordered value);

enum class IssueKind : std::uint8_t {
  damaged,
  missing,
  unentered,
  torn,
  leftover,
  permission,
  cut_off,
  recording,
  unreadable,
};
std::string_view word_of(IssueKind value);

// A mistake in a configuration, or something that it leaves without effect.
struct Remark {
  RemarkSeverity severity = RemarkSeverity::error;  // an error: the configuration is refused
  std::uint64_t line = 0;                           // the line of the file; 0: the whole file
  std::string key;                                  // the key, with those around it
  std::string message;                              // what was found, and what was expected
};

// A configuration, as a recording would read it.
struct Check {
  std::string file;                   // the configuration
  bool ok = false;                    // it can be recorded with
  std::vector<Remark> diagnostics;    // in the order of the file
  std::string dialect;                // the system whose configuration it is
  std::string path;                   // the directory of the dump
  std::string plan;                   // what will be recorded, in sentences
  std::vector<DumpProblem> problems;  // what could not be read, or not wholly; the rest was looked at all the same
  std::vector<std::string> warnings;  // other facts that the user should know, as on standard error
};

// The type of a value in a graph.
struct FlowType {
  std::string dtype;                               // the type of the elements
  std::optional<std::vector<std::int64_t>> shape;  // sizes; null: not known
};

// A parameter of a graph.
struct FlowParameter {
  std::string parameter;         // its name
  std::optional<FlowType> type;  // its type; null: not known
};

// An input of an operator: the output of another, a parameter or a number.
struct FlowRead {
  std::optional<FlowType> type;       // its type; null: not known
  std::string op_name;                // the operator that makes it
  std::optional<std::uint32_t> slot;  // the number of its output
  bool is_inner = false;              // something inside of that operator, none of its outputs
  std::string parameter;              // the parameter that it is
  std::optional<double> constant;     // the number that it is
};

// A line of the calls that led to an operator, the innermost first.
struct FlowLine {
  std::string source_file;        // the file of the user's program; empty: unknown
  std::uint32_t source_line = 0;  // the line in it; 0: unknown
  std::string function;           // the function around the line
};

// An operator of a graph.
struct FlowNode {
  std::string op_name;                           // the full name of the operator
  std::string op_type;                           // the type of the operator
  std::string scope;                             // the modules around it; empty: unknown
  Phase phase = Phase::forward;                  // when the operator ran
  std::vector<FlowRead> inputs;                  // in the order of its arguments
  std::vector<std::optional<FlowType>> outputs;  // the types of its outputs; null: not known
  JsonText attributes;                           // the other arguments, by name
  std::string source_file;                       // the file of the user's program; empty: unknown
  std::uint32_t source_line = 0;                 // the line in it; 0: unknown
  std::string function;                          // the function around the line
  std::vector<FlowLine> trace;                   // the lines of the calls
};

// The graph of a step.
struct StepFlow {
  std::uint32_t rank = 0;                 // the number of the process
  std::uint32_t graph = 0;                // 0 for training, 1 for evaluation
  std::uint64_t step = 0;                 // the number of the step
  std::vector<FlowParameter> parameters;  // what it reads from outside
  std::vector<FlowNode> ops;              // in the order of execution
  std::vector<DumpProblem> problems;      // what could not be read, or not wholly; the rest was looked at all the same
  std::vector<std::string> warnings;      // other facts that the user should know, as on standard error
};

// The saved index of a dump.
struct IndexReport {
  std::filesystem::path file;         // the file of the index
  std::uint64_t files = 0;            // files
  std::uint64_t tensors = 0;          // tensors
  std::uint64_t bytes = 0;            // bytes of the index
  double read_seconds = 0;            // time to read the dump
  double write_seconds = 0;           // time to write the index
  std::vector<DumpProblem> problems;  // what could not be read, or not wholly; the rest was looked at all the same
  std::vector<std::string> warnings;  // other facts that the user should know, as on standard error
};

// A configuration that the environment names.
struct NamedPlan {
  std::string file;    // the file
  bool ok = false;     // it can be recorded with
  std::string limits;  // the steps and tensors that it chooses
};

// This Sonde, its machine and its environment.
struct Info {
  std::string version;                             // the version of the program
  std::string compiler;                            // the compiler that made it
  std::string kernel;                              // the instruction set of its statistics
  std::vector<std::string> cpu_features;           // features of the processor that it looks for
  std::uint64_t cores = 0;                         // processors
  std::vector<NamedValue<std::string>> libraries;  // versions of the libraries that are linked
  // the interpreter that `sonde run` would start, its PyTorch, its MindSpore and the adapter
  JsonText python;
  std::vector<NamedValue<std::string>> environment;  // variables that Sonde reads
  // the configuration that the environment names; null: it names none
  std::optional<NamedPlan> plan;
  // what could not be read, or not wholly; the rest was looked at all the same
  std::vector<DumpProblem> problems;
  std::vector<std::string> warnings;  // other facts that the user should know, as on standard error
};

// The facts in the file about the place where the dump was made.
struct ReportContents {
  std::vector<std::string> hosts;         // names of machines
  std::vector<std::string> commands;      // commands of the runs
  bool paths = false;                     // paths of files
  std::uint64_t source_lines = 0;         // lines of the program
  std::uint64_t tensors_with_values = 0;  // tensors whose values are in it
  std::uint64_t operators = 0;            // operators
};

// Content that did not fit in.
struct ReportLeftOut {
  std::string what;         // its kind
  std::uint64_t count = 0;  // how many
};

// The page of a dump in one file.
struct HtmlReport {
  std::string file;                     // the file
  std::uint64_t bytes = 0;              // its bytes
  std::vector<std::uint64_t> steps;     // steps that are in it
  bool is_redacted = false;             // without names, paths, source and values
  ReportContents contains;              // what is in it
  std::vector<ReportLeftOut> left_out;  // what did not fit
  std::vector<DumpProblem> problems;    // what could not be read, or not wholly; the rest was looked at all the same
  std::vector<std::string> warnings;    // other facts that the user should know, as on standard error
};

// The first place where two runs of the command differ.
struct RunDifference {
  std::string process;      // the process
  std::uint64_t event = 0;  // the number of the event in it
  std::string place;        // the operator or the state
  std::string kind;         // the kind of event
  std::string name;         // the tensor
  std::string first;        // its hash in the first run
  std::string second;       // its hash in the second run
};

// Two runs of the command, event by event.
struct RunsCompared {
  std::vector<std::string> processes;              // the processes of both
  std::uint64_t events = 0;                        // events that were compared
  std::uint64_t steps = 0;                         // steps
  std::uint64_t tensors = 0;                       // tensors that were compared
  std::vector<std::string> kinds;                  // kinds of events
  std::vector<NamedValue<std::uint64_t>> skipped;  // tensors that were not compared, by the reason
  std::optional<RunDifference> first_difference;   // null: there is none
};

// The output of the command.
struct StdoutCompared {
  std::uint64_t lines = 0;                        // lines
  std::vector<std::uint64_t> different;           // numbers of the lines that differ
  std::vector<std::uint64_t> different_by_sonde;  // those that differ only with Sonde
  // `lines` or `characters` that are the same in another order; null: none
  std::optional<Reordered> reordered;
};

// Exit statuses of the command.
struct ExitStatuses {
  std::int64_t without_sonde = 0;  // without Sonde
  std::int64_t recording = 0;      // with Sonde
};

// Time that the command took.
struct RunSeconds {
  std::vector<double> without_sonde;  // each run without Sonde
  double recording = 0;               // the run with Sonde
};

// Whether Sonde changed the results of a command: runs of it with and without.
struct ProofDocument {
  std::string verdict;                        // the answer in a word
  RunsCompared compared;                      // a run with Sonde and one without
  std::optional<RunsCompared> without_sonde;  // two runs without Sonde; null: they were not needed
  StdoutCompared stdout;                      // what the command printed
  ExitStatuses exit_status;                   // how it ended
  RunSeconds seconds;                         // how long it took
  std::vector<std::string> recorded;          // directories of the dumps
  std::string unproved;                       // why nothing is proved
  // what could not be read, or not wholly; the rest was looked at all the same
  std::vector<DumpProblem> problems;
  std::vector<std::string> warnings;  // other facts that the user should know, as on standard error
};

// A step of a rank.
struct VerifiedStep {
  std::uint64_t run = 0;            // the number of the run in its rank
  std::uint32_t graph = 0;          // 0 for training, 1 for evaluation
  std::uint64_t step = 0;           // the number of the step
  bool ended = false;               // the step was recorded to its end
  std::uint64_t ops = 0;            // operators
  std::uint64_t files = 0;          // files that the journal names
  std::uint64_t files_missing = 0;  // of those, missing
  std::uint64_t files_damaged = 0;  // of those, damaged
  std::uint64_t rows = 0;           // rows of tables that the journal names
  std::uint64_t rows_missing = 0;   // of those, missing
};

// A rank of the dump.
struct VerifiedRank {
  std::uint32_t rank = 0;           // the number of the process
  std::string dump;                 // the dump of the rank, if the path holds several
  std::string directory;            // the directory of the rank
  bool has_journal = false;         // the rank has a journal of Sonde's
  std::vector<VerifiedStep> steps;  // in the order of the runs
};

// Something that is not as the journal says.
struct Issue {
  IssueKind kind = IssueKind::damaged;  // what it is
  bool is_finding = false;              // data are lost, or wrong: exit status 1
  std::filesystem::path path;           // the file
  std::string message;                  // what was found, and what was expected
  std::optional<std::uint32_t> rank;    // the number of the process
  std::optional<std::uint32_t> graph;   // 0 for training, 1 for evaluation
  std::optional<std::uint64_t> step;    // the number of the step
};

// Whether a dump is as its journal says.
struct Verification {
  // with `--complete`: files that were missing, or lacked rows
  std::optional<std::vector<std::filesystem::path>> made;
  // with `--complete`: files whose last row, or entry, broke off
  std::optional<std::vector<std::filesystem::path>> trimmed;
  // with `--complete`: tensor files that the journal now names
  std::optional<std::vector<std::filesystem::path>> entered;
  // with `--complete`: tables with rows that are not in the journal
  std::optional<std::vector<std::filesystem::path>> kept;
  std::vector<VerifiedRank> ranks;  // the ranks
  std::vector<Issue> issues;        // in the order of the files
  std::uint64_t records = 0;        // records of the journals
  std::uint64_t files = 0;          // files that were compared
  std::uint64_t bytes = 0;          // their bytes
  std::uint64_t rows = 0;           // rows of tables that were compared
  // what could not be read, or not wholly; the rest was looked at all the same
  std::vector<DumpProblem> problems;
  // other facts that the user should know, as on standard error
  std::vector<std::string> warnings;
};

// A parameter of a condition.
struct SetValue {
  std::string name;  // its name
  double value = 0;  // the bound
};

// A condition with its parameters.
struct SetCondition {
  std::string id;                // its name: `tensor_overflow`
  std::string abbr;              // its short name: `OT`
  std::vector<SetValue> params;  // its parameters
};

// A watchpoint: a condition on tensors.
struct WatchPoint {
  std::uint64_t id = 0;          // its number, from 1
  std::string name;              // its name
  SetCondition watch_condition;  // the condition
  std::uint64_t tensors = 0;     // tensors that it watches
};

// A condition, with the values of the tensor.
struct JudgedCondition {
  std::string id;                   // its name: `tensor_overflow`
  std::string abbr;                 // its short name: `OT`
  std::vector<JudgedValue> params;  // its parameters
};

// A watchpoint on a tensor.
struct JudgedPoint {
  std::uint64_t id = 0;             // the number of the watchpoint
  JudgedCondition watch_condition;  // the condition, with the values of the tensor
  bool hit = false;                 // the condition is met
  // MindSpore's number of the reasons why it could not be judged; 0: it was
  std::uint64_t error_code = 0;
  std::vector<std::string> error_list;         // the same, in words of MindSpore's
  std::vector<std::string> error_msg;          // the same, in sentences
  std::string hit_detail;                      // the setting of the watchpoint and the values of the tensor
  std::optional<std::uint64_t> previous_step;  // the step that it was compared with
  std::optional<std::uint64_t> nan_count;      // elements that are NaN
  std::optional<std::uint64_t> inf_count;      // elements that are infinite
};

// A tensor with its watchpoints.
struct WatchedTensor {
  Side side = Side::input;                         // whether the operator reads or writes it
  std::uint32_t slot = 0;                          // its number on its side
  std::string dtype;                               // the type of the elements; `?`: only a file has it
  std::optional<std::vector<std::int64_t>> shape;  // sizes; null: only a file has them
  std::uint64_t timestamp_us = 0;                  // when it was read, in microseconds since 1970
  std::vector<JudgedPoint> watch_points;           // those that are met, or could not be judged
  std::string tensor_file;                         // the file with the values
};

// An operator with tensors that meet a condition.
struct WatchedOp {
  std::string op_name;                 // the full name of the operator
  std::string op_type;                 // the type of the operator
  std::string scope;                   // the modules around it; empty: unknown
  std::uint32_t rank = 0;              // the number of the process
  std::uint32_t graph = 0;             // 0 for training, 1 for evaluation
  std::string graph_name;              // the name of the graph in MindSpore's words
  std::uint64_t step = 0;              // the number of the step
  std::string source_file;             // the file of the user's program; empty: unknown
  std::uint32_t source_line = 0;       // the line in it; 0: unknown
  std::string function;                // the function around the line
  std::vector<WatchedTensor> tensors;  // its tensors
};

// A tensor that could not be judged.
struct NotJudged {
  std::uint64_t id = 0;     // the number of the watchpoint
  std::string op_name;      // the full name of the operator
  std::uint32_t rank = 0;   // the number of the process
  std::uint32_t graph = 0;  // 0 for training, 1 for evaluation
  std::uint64_t step = 0;   // the number of the step
  Side side = Side::input;  // whether the operator reads or writes it
  std::uint32_t slot = 0;   // its number on its side
  std::string reason;       // why not
};

// A parameter of a condition that can be set.
struct ConditionParameterInfo {
  std::string name;                                         // its name
  std::string type;                                         // `FLOAT64`
  bool support_disable = false;                             // the condition can be checked without it
  std::optional<double> default_value;                      // the bound where none is given; null: none
  std::string param_type;                                   // `CHECK_PARAM`, `SUPPORT_PARAM` or `HIDDEN_PARAM`
  std::optional<std::vector<std::string>> required_params;  // parameters that must be given with it; null: none
  std::string values;                                       // the values that it may have; empty: any
};

// A condition that can be set, with `--list`.
struct Condition {
  std::string id;                                  // its name
  std::string abbr;                                // its short name
  std::string target;                              // the tensors that it is for
  std::uint64_t backend = 0;                       // MindSpore's number of it
  std::vector<ConditionParameterInfo> parameters;  // its parameters
  std::string summary;                             // what it finds
};

// Tensors that meet a condition; with `--list` the conditions.
struct WatchDocument {
  std::optional<std::vector<WatchPoint>> watch_points;  // what was asked
  std::optional<std::vector<WatchedOp>> hits;           // by the time at which tensors were written
  std::optional<std::vector<NotJudged>> not_judged;     // in the order of the dump
  // conditions without a tensor to watch, and steps without the step before
  std::optional<std::vector<std::string>> notes;
  std::optional<std::uint64_t> tensors;              // tensors that were watched
  std::optional<std::uint64_t> not_read;             // tensors that statistics decided
  std::optional<std::uint64_t> files_read;           // files that were opened
  std::optional<std::uint64_t> bytes_read;           // bytes of these files
  std::optional<bool> outdated;                      // false, as MindSpore's debugger says it
  std::optional<std::vector<Condition>> conditions;  // with `--list`
  // what could not be read, or not wholly; the rest was looked at all the same
  std::vector<DumpProblem> problems;
  std::vector<std::string> warnings;  // other facts that the user should know, as on standard error
};

}  // namespace sonde
