// The documents of the verbs. Made from contract/ by tools/contract.py: a change here is lost.

// A number; one that JSON does not have is a text.
export type Numeric = number | "nan" | "inf" | "-inf";

// A part of a dump, or a file, that could not be read.
export interface Problem {
  readonly path: string; // empty: the message names the place
  readonly message: string; // what was found, and what was expected
}

// Why the call failed; members of the answer may then be missing.
export interface Failure {
  readonly message: string; // the reason
  readonly status: number; // the exit status
}

// A line of the user's program.
export interface Line {
  readonly number: number; // from 1
  readonly text: string; // without its end
}

// The line of the program that called a library.
export interface Caller {
  readonly source_file: string; // the file of the user's program; empty: unknown
  readonly source_line: number; // the line in it; 0: unknown
  readonly function: string; // the function around the line
}

// A line of the user's program, with its neighbours where the text is there.
export interface Code {
  readonly source_file: string; // the file of the user's program; empty: unknown
  readonly source_line: number; // the line in it; 0: unknown
  readonly function: string; // the function around the line
  readonly lines: readonly Line[]; // the line and its neighbours
  readonly called_from?: Caller; // of a line in a library: the program's innermost line that led there; of a function of several callers: the line that called it
}

// A tensor that a finding is about, or points to.
export interface FindingTensor extends Statistics {
  readonly op_name: string; // the operator; empty: nothing in the dump made the tensor
  readonly op_type: string; // the type of the operator
  readonly side: "input" | "output"; // whether the operator reads or writes it
  readonly slot: number; // its number on its side
  readonly parameter: string; // the parameter, gradient, state or input data that the tensor is; empty: none
  readonly placement?: string; // how it is part of a distributed tensor: `Shard(0) of (16, 8) on tp=2, from (8, 0)`
  readonly dtype: string | null; // the type of the elements; null: the dump does not have it
  readonly shape: readonly number[] | null; // sizes; null: the dump does not have them
  readonly counted?: string; // how much of it is bad, and what the rest is: `1 of 4 NaN, rest -0.61 … 0.32`
  readonly finite_min?: Numeric; // the smallest finite element, where others are NaN or infinite and the dump has the values
  readonly finite_max?: Numeric; // the largest finite element, where others are NaN or infinite and the dump has the values
  readonly tensor_file?: string; // the file with the values
}

// An operator of an earlier step of the same rank.
export interface EarlierOp {
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the number of the step
  readonly op_name: string; // the full name of the operator
  readonly op_type: string; // the type of the operator
  readonly phase: "forward" | "backward" | "optimizer" | "outside" | "recompute"; // when the operator ran
  readonly source_file: string; // the file of the user's program; empty: unknown
  readonly source_line: number; // the line in it; 0: unknown
}

// What to do next.
export interface NextCommand {
  readonly kind: "values" | "readers" | "recording" | "browser" | "target_op" | "golden_op" | "all_ops" | "browser_of_both"; // what it is for
  readonly purpose: string; // what it shows, or does, in words
  readonly command: string; // for the shell, in the directory where the question was asked
}

// Something wrong: its place, its numbers, the reason and the evidence.
export interface Finding {
  readonly kind: "operator" | "overflow" | "bad_input" | "bad_parameter" | "memory_overwritten" | "collective" | "scaler_skipped"; // what was found
  readonly severity: "error" | "warning" | "note"; // `error` and `warning` give exit status 1, `note` none
  readonly rank: number; // the number of the process
  readonly dump: string; // the dump of the rank, if the path holds several
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the number of the step
  readonly phase: "forward" | "backward" | "optimizer" | "outside" | "recompute"; // when the operator ran
  readonly op_name: string; // the operator that is to blame
  readonly op_type: string; // the type of the operator
  readonly tags: readonly string[]; // further properties: `backward_only`, `one_rank_only`, `uncertain`
  readonly why: string; // the reason, in a sentence
  readonly tensor: FindingTensor; // the wrong tensor
  readonly numbers: Readonly<Record<string, Numeric>>; // the numbers that the sentence rests on, by name
  readonly evidence: readonly string[]; // the observed facts, a line each
  readonly limits: readonly string[]; // the facts that this dump cannot show, a line each
  readonly before?: readonly EarlierOp[]; // of a tensor from before the step: the way through earlier steps to it, in the order of the run
  readonly code: Code; // the line of the operator
}

// A slot of an operator, with the step and the operator that it belongs to.
export interface Tensor extends Statistics {
  readonly rank: number; // the number of the process
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the number of the step
  readonly op_name: string; // the full name of the operator
  readonly op_type: string; // the type of the operator
  readonly scope: string; // the modules around it; empty: unknown
  readonly phase: "forward" | "backward" | "optimizer" | "outside" | "recompute"; // when the operator ran
  readonly is_parameter: boolean; // a parameter, not an operator
  readonly side: "input" | "output"; // whether the operator reads or writes it
  readonly slot: number; // its number on its side
  readonly parameter: string; // the parameter, gradient, state or input data that the tensor is; empty: none
  readonly dtype: string; // the type of the elements; `?`: only a file has it
  readonly run?: number; // the number of the run in its rank; without it, the first
  readonly dump?: string; // the dump of the rank, if the path holds several
  readonly key?: string; // the name of the tensor in its file
  readonly placement?: string; // how it is part of a distributed tensor: `Shard(0) of (16, 8) on tp=2, from (8, 0)`
  readonly is_module?: boolean; // a module's inputs and outputs, not an operator's
  readonly shape: readonly number[] | null; // sizes; null: only a file has them
  readonly md5?: string; // the MD5 of the bytes
  readonly sha1?: string; // the SHA-1 of the bytes
  readonly skipped?: string; // why the values were not recorded
  readonly tensor_file?: string; // the file with the values
  readonly source_file: string; // the file of the user's program; empty: unknown
  readonly source_line: number; // the line in it; 0: unknown
  readonly function: string; // the function around the line
  readonly timestamp_us: number; // when it was read, in microseconds since 1970
}

// The statistics of a tensor that the dump has.
export interface Statistics {
  readonly max?: Numeric; // the largest value
  readonly min?: Numeric; // the smallest value
  readonly avg?: Numeric; // the mean
  readonly l2norm?: Numeric; // the square root of the sum of squares
  readonly count?: number; // elements
  readonly nan_count?: number; // elements that are NaN
  readonly positive_inf_count?: number; // elements that are +inf
  readonly negative_inf_count?: number; // elements that are -inf
  readonly positive_count?: number; // elements above 0
  readonly negative_count?: number; // elements below 0
  readonly zero_count?: number; // elements equal to 0
}

// A mistake in a configuration, or something that it leaves without effect.
export interface Remark {
  readonly severity: "error" | "warning"; // an error: the configuration is refused
  readonly line: number; // the line of the file; 0: the whole file
  readonly key: string; // the key, with those around it
  readonly message: string; // what was found, and what was expected
}

// A configuration, as a recording would read it.
export interface Check {
  readonly file: string; // the configuration
  readonly ok: boolean; // it can be recorded with
  readonly diagnostics: readonly Remark[]; // in the order of the file
  readonly dialect?: string; // the system whose configuration it is
  readonly path?: string; // the directory of the dump
  readonly plan?: string; // what will be recorded, in sentences
  readonly problems: readonly Problem[]; // what could not be read, or not wholly; the rest was looked at all the same
  readonly warnings: readonly string[]; // other facts that the user should know, as on standard error
  readonly error?: Failure; // why the call failed; other members may then be missing
}

// A tensor of the target beside its counterpart, with the errors that were measured. A bound that does not apply is left out.
export interface TensorPair {
  readonly side: "input" | "output"; // whether the operator reads or writes it
  readonly slot: number; // its number on its side
  readonly parameter: string; // the parameter, gradient, state or input data that the tensor is; empty: none
  readonly dtype: string; // the type of the elements; `?`: only a file has it
  readonly shape: readonly number[]; // sizes in the target
  readonly golden_shape: readonly number[]; // sizes in the golden dump
  readonly compared_by: string; // `values`, `statistics`, `hash`; empty: not at all
  readonly equal: boolean; // equal to the last bit, as far as was compared
  readonly beyond: boolean; // further apart than the bounds allow
  readonly golden_slot?: number; // the number on the golden side, where it is another one
  readonly problem?: string; // why it could not be compared
  readonly note?: string; // what else is known of the pair
  readonly relative_error?: Numeric; // the norm of the difference over the golden norm
  readonly rms_error?: Numeric; // the root of the mean square of the difference
  readonly max_error?: Numeric; // the largest difference
  readonly golden_rms?: Numeric; // the root of the mean square of the golden values
  readonly different_non_finite?: number; // elements that are NaN or infinite on one side, or differ in it
  readonly cosine?: Numeric; // the cosine of both as vectors
  readonly elements?: number; // elements
  readonly mismatches?: number; // elements beyond the bounds that were given
  readonly worst_index?: number; // the flat index of the largest error
  readonly worst_value?: Numeric; // the value of the target at the largest error
  readonly worst_golden?: Numeric; // the golden value there
  readonly rounding_rms?: Numeric; // the error that rounding explains, as root of the mean square
  readonly rounding_max?: Numeric; // the largest error that rounding explains
  readonly propagated_rms?: Numeric; // the error that the errors of the inputs explain, as root of the mean square
  readonly propagated_max?: Numeric; // the largest error that they explain
}

// A place where the target's run differs from the golden one.
export interface Difference {
  readonly kind: string; // `op`, `parameter`, `data`, `inserted`, …: docs/compare.md, "What is found"
  readonly rank: number; // the number of the process
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the number of the step
  readonly op_name: string; // the operator to look at: of the golden dump if `in_golden`
  readonly op_type: string; // the type of the operator
  readonly source_file: string; // the file of the user's program; empty: unknown
  readonly source_line: number; // the line in it; 0: unknown
  readonly in_golden: boolean; // the operator is in the golden dump alone
  readonly golden: string; // the operators that it was compared with
  readonly text: string; // the difference in one line
  readonly tags: readonly "uncertain"[]; // `uncertain`: the text names the evidence that would settle it
  readonly factor?: number; // the target's tensor is so many times the golden one; without it there is no one factor
  readonly tensor?: TensorPair; // the tensor with the error
  readonly attributes: readonly string[]; // arguments of the operators that differ
  readonly evidence: readonly string[]; // of the first: what its operator reads and is called with, on both sides; empty: of another
  readonly code?: Code; // the line of the operator
  readonly golden_code?: Code; // the line of what it was compared with
}

// The error that a layer introduces.
export interface Layer {
  readonly layer: string; // the path of the module
  readonly rank: number; // the number of the process
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the number of the step
  readonly op_name: string; // the operator whose output was compared
  readonly compared_by: "values" | "statistics"; // what was compared
  readonly introduced: Numeric; // the root of `error_out` squared less `error_in` squared
  readonly error_in: Numeric; // the relative error of its inputs
  readonly error_out: Numeric; // the relative error of its outputs
  readonly signal_to_noise_db: Numeric; // 20 log10 of 1 / `error_out`
}

// A golden tensor of which one of the target is made, or has a part.
export interface GoldenTensor {
  readonly rank: number; // the number of the process
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the number of the step
  readonly op_name: string; // the operator that made it; empty: it comes from outside
  readonly parameter: string; // the parameter, gradient, state or input data that the tensor is; empty: none
  readonly slot: number; // its number on its side
  readonly source_file: string; // the file of the user's program; empty: unknown
  readonly source_line: number; // the line in it; 0: unknown
}

// How a tensor of the target is made from golden ones, where the two are two implementations of one network.
export interface Correspondence {
  readonly rank: number; // the number of the process
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the number of the step
  readonly op_name: string; // the operator that made it; empty: it comes from outside
  readonly parameter: string; // the parameter, gradient, state or input data that the tensor is; empty: none
  readonly slot: number; // its number on its side
  readonly dtype: string; // the type of the elements; `?`: only a file has it
  readonly shape: readonly number[]; // sizes in the target
  readonly relation: "none" | "same" | "permuted" | "joined" | "cut" | "sum" | "constant"; // how it is made: docs/compare.md, "Two implementations"
  readonly golden: string; // the golden tensors and their parts
  readonly golden_tensors: readonly GoldenTensor[]; // those tensors, each once; of more than 8 the first ones
  readonly relative_error?: Numeric; // the norm of the difference over the golden norm
  readonly source_file: string; // the file of the user's program; empty: unknown
  readonly source_line: number; // the line in it; 0: unknown
}

// An operator of the target with its counterpart, or one of them alone.
export interface OperatorPair {
  readonly rank: number; // the number of the process
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the number of the step
  readonly verdict: string; // how the operator compares with its counterpart
  readonly target: readonly string[]; // operators of the target, by full name
  readonly golden: readonly string[]; // operators of the golden dump, by full name
  readonly op_type: string; // the type of the operator
  readonly kind: string; // the kind of operator, whose rounding is expected
  readonly matched_by: string; // how the counterpart was found
  readonly source_file: string; // the file of the user's program; empty: unknown
  readonly source_line: number; // the line in it; 0: unknown
  readonly function: string; // the function around the line
  readonly inputs: readonly TensorPair[]; // tensors that it reads
  readonly outputs: readonly TensorPair[]; // tensors that it writes
  readonly moved?: boolean; // it runs at another place than its counterpart, among the pairs of the step
  readonly reason?: string; // why it has this verdict, or no counterpart
  readonly nearest?: string; // the operator on the other side that is most like it
}

// The operators of two dumps, and the first that introduces an error beyond its rounding.
export interface Comparison {
  readonly complete: boolean; // everything was looked at: without a finding, nothing is wrong
  readonly findings: readonly Difference[]; // the earliest error first
  readonly summary: Readonly<Record<string, number>>; // the number of operators with each verdict
  readonly next_commands: readonly NextCommand[]; // what to do next, each with the command that does it
  readonly rtol: number | null; // the relative tolerance that was given; null: it is derived for each operator
  readonly atol: number | null; // the absolute tolerance that was given; null: it is derived
  readonly notes: readonly string[]; // ranks and steps that only one dump has
  readonly joined?: string; // of ranks that share the work: how their tensors were joined
  readonly layers?: readonly Layer[]; // with `--layers`: the largest first
  readonly relations?: readonly Correspondence[]; // of two implementations: every tensor of the target
  readonly ops: readonly OperatorPair[]; // every operator
  readonly problems: readonly Problem[]; // what could not be read, or not wholly; the rest was looked at all the same
  readonly warnings: readonly string[]; // other facts that the user should know, as on standard error
  readonly error?: Failure; // why the call failed; other members may then be missing
}

// A rank whose last run did not end the recording itself: nobody knows what came after.
export interface UnfinishedRun {
  readonly state: "killed" | "stopped" | "running"; // `stopped`: an error ended the recording, and the program went on
  readonly rank: number; // the number of the process
  readonly dump: string; // the dump of the rank, if the path holds several
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the last one
  readonly in_step: boolean; // false: the step had ended
  readonly reason: string; // the error that stopped the recording; otherwise empty
  readonly complete_step: number | null; // the last step of this graph that ended; null: none did
}

// A rank and graph where a healthy infinity is.
export interface HealthyPlace {
  readonly rank: number; // the number of the process
  readonly dump: string; // the dump of the rank, if the path holds several
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly steps: string; // steps, as `--step` takes them: `0-2|5`
}

// An infinity that is intended, or does no harm: an operator removes it before it matters.
export interface HealthyInfinity {
  readonly tensor: FindingTensor; // where it is first
  readonly rank: number; // the rank where it is first
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the number of the step
  readonly places: readonly HealthyPlace[]; // all its places
  readonly how: string; // `placed`, `computed` or `from outside`
  readonly absorbed_by: readonly string[]; // the operators that remove it, by full name; empty: no operator in the dump reads it
  readonly code: Code; // the line of the operator
}

// The value of one step.
export interface GrowthPoint {
  readonly step: number; // the number of the step
  readonly value: Numeric; // the norm, or the largest magnitude
}

// The first tensor that rose to ten times its earlier median and stayed there. No state of an optimizer is one.
export interface Growth {
  readonly tensor: FindingTensor; // the tensor
  readonly rank: number; // the number of the process
  readonly step: number; // the number of the step
  readonly before: Numeric; // the median of the steps before
  readonly now: Numeric; // the value of this step
  readonly of_norm: boolean; // false: largest magnitudes, since the dump has no norm
  readonly series: readonly GrowthPoint[]; // the value of each step
  readonly code: Code; // the line of the operator
}

// The scope of the analysis.
export interface LookedAt {
  readonly ranks: number; // ranks
  readonly steps: number; // steps
  readonly ops: number; // operators
  readonly ops_not_recorded: number; // of `ops`: only their place in the graph is known
  readonly tensors: number; // tensors
  readonly files_read: number; // files that were opened
}

// The later step in which a path goes on.
export interface ContinuedPath {
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the number of the step
  readonly first: number; // the first operator of `path` that runs in it
}

// The first operator whose output holds a NaN or an infinity that matters.
export interface FirstBad {
  readonly complete: boolean; // all that was recorded was looked at: without a finding, nothing in it is wrong; false if the recording ended early
  readonly unfinished: readonly UnfinishedRun[]; // ranks whose last run has not ended the recording itself
  readonly first: Finding | null; // the answer; null: nothing was found
  readonly findings: readonly Finding[]; // the answer, then others of its step that it does not cause
  readonly by_rank: readonly Finding[]; // the first finding of each rank that its own operators caused, the answer's rank first
  readonly reaches: string; // where it matters: `the loss`, `a gradient`
  readonly path: readonly string[]; // the operators from the answer to where it matters, by full name
  readonly goes_on?: ContinuedPath; // of a path that goes on in a later step: where
  readonly expected: readonly Finding[]; // findings of a loss scaler, which skipped the step
  readonly asides: readonly Finding[]; // notes: metrics and numbers that are printed, which no training reads
  readonly healthy: readonly HealthyInfinity[]; // of the step of the answer, or of all steps where there is none
  readonly healthy_left_out: number; // healthy infinities that are not in the list
  readonly growth: Growth | null; // "grew first"; null: no tensor
  readonly suspects: readonly string[]; // operators whose tensors would show more in another run
  readonly next_commands: readonly NextCommand[]; // what to do next, each with the command that does it
  readonly notes: readonly string[]; // how the verb filled gaps of the dump, and what it left out
  readonly looked_at: LookedAt; // the scope of the analysis
  readonly only_overflows: boolean; // the dump holds nothing but operators that overflowed
  readonly problems: readonly Problem[]; // what could not be read, or not wholly; the rest was looked at all the same
  readonly warnings: readonly string[]; // other facts that the user should know, as on standard error
  readonly error?: Failure; // why the call failed; other members may then be missing
}

// A tensor as another type.
export interface HeadroomOf {
  readonly dtype: string; // the type
  readonly overflows: boolean; // a finite element is beyond the largest number of the type
  readonly headroom?: Numeric; // powers of two between the largest element and the largest number of the type; below 0: it overflows. Not with a scale
  readonly overflow_count?: number; // finite elements beyond the largest number of the type
  readonly underflow_count?: number; // elements that become 0 and are not
  readonly subnormal_count?: number; // elements that keep fewer digits, since they are below the normal numbers of the type
}

// A tensor of an operator over the steps and the ranks.
export interface HeadroomTensor {
  readonly op_name: string; // the full name of the operator
  readonly op_type: string; // the type of the operator
  readonly source_file: string; // the file of the user's program; empty: unknown
  readonly source_line: number; // the line in it; 0: unknown
  readonly side: "input" | "output"; // whether the operator reads or writes it
  readonly slot: number; // its number on its side
  readonly parameter: string; // the parameter, gradient, state or input data that the tensor is; empty: none
  readonly dtype: string; // the type of the elements; `?`: only a file has it
  readonly rank: number; // the process with the largest element
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the step with the largest element
  readonly recordings: number; // how often it is in the dump
  readonly from_values: number; // those whose values were read; of the others there are statistics
  readonly elements: number; // elements of all recordings
  readonly infinite_count: number; // elements that are infinite
  readonly max_abs?: Numeric; // the largest finite element, without its sign
  readonly least_abs?: Numeric; // the smallest element that is not 0, without its sign
  readonly headroom?: Numeric; // powers of two between the largest element and the largest number of its own type
  readonly as_dtypes: readonly HeadroomOf[]; // the same tensor as each of the types
}

// How near tensors are to the largest number of a type.
export interface HeadroomReport {
  readonly complete: boolean; // every recording was read, by its values
  readonly scale: "none" | "tensor" | "block"; // what the values were multiplied by first
  readonly tensors: readonly HeadroomTensor[]; // those with the least headroom first
  readonly not_known: number; // recordings without values or statistics
  readonly problems: readonly Problem[]; // what could not be read, or not wholly; the rest was looked at all the same
  readonly warnings: readonly string[]; // other facts that the user should know, as on standard error
  readonly error?: Failure; // why the call failed; other members may then be missing
}

// A run of a rank.
export interface ListedRun {
  readonly finished: boolean; // it ended the recording itself
  readonly host: string; // the machine
  readonly command: string; // the command
  readonly layout: string; // the layout of directories and files
  readonly saved_data: string; // `tensor`, `statistic` or `full`
  readonly net_name: string; // the name of the network in the configuration
  readonly error: string; // the error that stopped the recording; empty: none
  readonly pid: number; // the number of the process
  readonly started_us: number; // its begin, in microseconds since 1970
  readonly ended_us: number; // its end, in microseconds since 1970; 0: it has none
  readonly bytes_read: number; // bytes of tensors that were read
  readonly bytes_written: number; // bytes of files
  readonly notes: readonly string[]; // what the run says of itself
}

// The rows of a request in the batch of a step.
export interface ListedRequest {
  readonly request: string; // as the engine names it
  readonly row: number; // its first row, from 0
  readonly rows: number; // its rows, one for each token
  readonly position: number; // of the first one's token in the request, from 0
}

// The facts in the file about the place where the dump was made.
export interface ReportContents {
  readonly hosts: readonly string[]; // names of machines
  readonly commands: readonly string[]; // commands of the runs
  readonly paths: boolean; // paths of files
  readonly source_lines: number; // lines of the program
  readonly tensors_with_values: number; // tensors whose values are in it
  readonly operators: number; // operators
}

// A parameter of a condition.
export interface SetValue {
  readonly name: string; // its name
  readonly value: Numeric; // the bound
}

// A condition with its parameters.
export interface SetCondition {
  readonly id: string; // its name: `tensor_overflow`
  readonly abbr: string; // its short name: `OT`
  readonly params: readonly SetValue[]; // its parameters
}

// A parameter of a condition, with the value of the tensor.
export interface JudgedValue {
  readonly name: string; // its name
  readonly value: Numeric; // the bound
  readonly actual_value: Numeric | null; // the value of the tensor; null: there is nothing to compare with it
  readonly is_hit: boolean; // the bound is met
  readonly at_least?: Numeric; // a bound that decides it, where the value is not known
  readonly at_most?: Numeric; // a bound that decides it, where the value is not known
}

// A condition, with the values of the tensor.
export interface JudgedCondition {
  readonly id: string; // its name: `tensor_overflow`
  readonly abbr: string; // its short name: `OT`
  readonly params: readonly JudgedValue[]; // its parameters
}

// A watchpoint: a condition on tensors.
export interface WatchPoint {
  readonly id: number; // its number, from 1
  readonly name: string; // its name
  readonly watch_condition: SetCondition; // the condition
  readonly tensors: number; // tensors that it watches
}

// A watchpoint on a tensor.
export interface JudgedPoint {
  readonly id: number; // the number of the watchpoint
  readonly watch_condition: JudgedCondition; // the condition, with the values of the tensor
  readonly hit: boolean; // the condition is met
  readonly error_code: number; // MindSpore's number of the reasons why it could not be judged; 0: it was
  readonly error_list: readonly string[]; // the same, in words of MindSpore's
  readonly error_msg: readonly string[]; // the same, in sentences
  readonly hit_detail?: string; // the setting of the watchpoint and the values of the tensor
  readonly previous_step?: number; // the step that it was compared with
  readonly nan_count?: number; // elements that are NaN
  readonly inf_count?: number; // elements that are infinite
}

// A tensor with its watchpoints.
export interface WatchedTensor {
  readonly side: "input" | "output"; // whether the operator reads or writes it
  readonly slot: number; // its number on its side
  readonly dtype: string; // the type of the elements; `?`: only a file has it
  readonly shape: readonly number[] | null; // sizes; null: only a file has them
  readonly timestamp_us: number; // when it was read, in microseconds since 1970
  readonly watch_points: readonly JudgedPoint[]; // those that are met, or could not be judged
  readonly tensor_file?: string; // the file with the values
}

// An operator with tensors that meet a condition.
export interface WatchedOp {
  readonly op_name: string; // the full name of the operator
  readonly op_type: string; // the type of the operator
  readonly scope: string; // the modules around it; empty: unknown
  readonly rank: number; // the number of the process
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly graph_name: string; // the name of the graph in MindSpore's words
  readonly step: number; // the number of the step
  readonly source_file: string; // the file of the user's program; empty: unknown
  readonly source_line: number; // the line in it; 0: unknown
  readonly function: string; // the function around the line
  readonly tensors: readonly WatchedTensor[]; // its tensors
}

// A tensor that could not be judged.
export interface NotJudged {
  readonly id: number; // the number of the watchpoint
  readonly op_name: string; // the full name of the operator
  readonly rank: number; // the number of the process
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the number of the step
  readonly side: "input" | "output"; // whether the operator reads or writes it
  readonly slot: number; // its number on its side
  readonly reason: string; // why not
}

// A parameter of a condition that can be set.
export interface ConditionParameterInfo {
  readonly name: string; // its name
  readonly type: string; // `FLOAT64`
  readonly support_disable: boolean; // the condition can be checked without it
  readonly default_value: number | null; // the bound where none is given; null: none
  readonly param_type: string; // `CHECK_PARAM`, `SUPPORT_PARAM` or `HIDDEN_PARAM`
  readonly required_params: readonly string[] | null; // parameters that must be given with it; null: none
  readonly values: string; // the values that it may have; empty: any
}

// A condition that can be set, with `--list`.
export interface Condition {
  readonly id: string; // its name
  readonly abbr: string; // its short name
  readonly target: string; // the tensors that it is for
  readonly backend: number; // MindSpore's number of it
  readonly parameters: readonly ConditionParameterInfo[]; // its parameters
  readonly summary: string; // what it finds
}

// Tensors that meet a condition; with `--list` the conditions.
export interface WatchDocument {
  readonly watch_points?: readonly WatchPoint[]; // what was asked
  readonly hits?: readonly WatchedOp[]; // by the time at which tensors were written
  readonly not_judged?: readonly NotJudged[]; // in the order of the dump
  readonly notes?: readonly string[]; // conditions without a tensor to watch, and steps without the step before
  readonly tensors?: number; // tensors that were watched
  readonly not_read?: number; // tensors that statistics decided
  readonly files_read?: number; // files that were opened
  readonly bytes_read?: number; // bytes of these files
  readonly outdated?: boolean; // false, as MindSpore's debugger says it
  readonly conditions?: readonly Condition[]; // with `--list`
  readonly problems: readonly Problem[]; // what could not be read, or not wholly; the rest was looked at all the same
  readonly warnings: readonly string[]; // other facts that the user should know, as on standard error
  readonly error?: Failure; // why the call failed; other members may then be missing
}

// What a search found.
export interface Hit {
  readonly kind: "op" | "scope" | "parameter" | "line"; // what it is
  readonly name: string; // full name; of a line `train.py:29`
  readonly rank: string; // its number, or `0 of run7`
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the first step that has it
  readonly op_name: string; // the first op of it
  readonly count: number; // ops of it, over all steps
}

// The answer of `search`.
export interface Hits {
  readonly hits: readonly Hit[]; // in the order of the run
  readonly truncated: boolean; // there are more
  readonly generation: number; // of the dump
}

// A file of the user's program.
export interface ListedFile {
  readonly source_file: string; // the file of the user's program; empty: unknown
  readonly ops: number; // ops of its lines
  readonly lines: number; // lines with ops
  readonly class: "not_recorded" | "fine" | "not_measured" | "healthy_infinity" | "unjudged_infinity" | "infinity" | "nan"; // the worst of its ops
  readonly has_text: boolean; // the dump holds the text
}

// The answer of `source` without `file`.
export interface SourceFiles {
  readonly files: readonly ListedFile[]; // those that have ops
  readonly generation: number; // of the dump
}

// A line of a file.
export interface FileLine {
  readonly number: number; // from 1
  readonly text: string; // without its end
  readonly ops: number; // ops of it
  readonly class: "not_recorded" | "fine" | "not_measured" | "healthy_infinity" | "unjudged_infinity" | "infinity" | "nan"; // the worst of its ops
}

// The answer of `source` with `file`.
export interface SourceFile {
  readonly source_file: string; // the file of the user's program; empty: unknown
  readonly has_text: boolean; // the dump holds the text
  readonly lines: readonly FileLine[]; // all lines where the dump has the text; else those with ops
  readonly generation: number; // of the dump
}

// A part of the tree of scopes.
export interface ScopeBelow {
  readonly scope: string; // full path
  readonly name: string; // last part
  readonly ops: number; // below it, in the chosen steps
  readonly class: "not_recorded" | "fine" | "not_measured" | "healthy_infinity" | "unjudged_infinity" | "infinity" | "nan"; // the worst of its ops
  readonly has_scopes: boolean; // it has scopes below
}

// The answer of `scopes`.
export interface Scopes {
  readonly under: string; // the scope that was asked for
  readonly scopes: readonly ScopeBelow[]; // directly below it
  readonly ops: number; // ops directly in it
  readonly generation: number; // of the dump
}

// A run of a rank.
export interface OverviewRun extends ListedRun {
  readonly run: number; // the number of the run in its rank
}

// A dimension of work that ranks share, and the place of a rank in it.
export interface RankDimension {
  readonly dimension: string; // as the program names it, `tp`; of DDP `dp`, of the stages of a pipeline `pp`
  readonly size: number; // ranks along it
  readonly place: number; // of the rank, from 0
}

// A rank of a dump.
export interface OverviewRank {
  readonly rank: string; // its number, or `0 of run7`
  readonly kind: "journal" | "tree" | "msprobe" | "files" | "summary"; // who wrote it
  readonly dump: string; // which of several dumps; empty: there is one
  readonly runs: readonly OverviewRun[]; // the oldest first
  readonly dimensions: readonly RankDimension[]; // those that placements and collectives of its first step show
}

// A step of a rank.
export interface OverviewStep {
  readonly rank: string; // its number, or `0 of run7`
  readonly run: number; // the number of the run in its rank
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the number of the step
  readonly started_us: number; // its begin, in microseconds since 1970
  readonly ended_us: number; // its end, in microseconds since 1970; 0: it has none
  readonly ended: boolean; // false: the run was cut off inside it
  readonly is_mended: boolean; // what its files lacked was found in others
  readonly ops: number; // operators
  readonly parameters: number; // parameters, and data from outside
  readonly tensors: number; // recorded tensors
  readonly files: number; // files with values
  readonly bytes: number; // bytes of files
  readonly known: number; // tensors for which the dump says whether they are finite
  readonly not_recorded: number; // ops without a recorded tensor
  readonly class: "not_recorded" | "fine" | "not_measured" | "healthy_infinity" | "unjudged_infinity" | "infinity" | "nan"; // the worst of its ops
  readonly requests?: readonly ListedRequest[]; // those of an engine's step, by their rows
}

// The scalar at which backward begins.
export interface Loss {
  readonly rank: string; // its number, or `0 of run7`
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the number of the step
  readonly op_name: string; // the op that made it
  readonly slot: number; // the output of that op
  readonly value: Numeric | null; // null: it was not recorded
}

// The answer of `overview`.
export interface Overview {
  readonly dump: number; // the number for `dump=`
  readonly ranks: readonly OverviewRank[]; // its ranks
  readonly world_size: number; // processes of the program; 0: unknown
  readonly steps: readonly OverviewStep[]; // of all ranks
  readonly loss: readonly Loss[]; // by step
  readonly problems: readonly Problem[]; // what could not be read, or not wholly; the rest was looked at all the same
  readonly warnings: readonly string[]; // other facts that the user should know, as on standard error
  readonly finding: FirstBad | null; // the result of the last first-bad job of this dump
  readonly finding_generation: number | null; // the generation that this job has seen at least; null without a finding. If it is not that of the answer, the dump has changed since
  readonly generation: number; // of the dump
}

// A line of the calls that led to an operator.
export interface CodeLine {
  readonly source_file: string; // the file of the user's program; empty: unknown
  readonly source_line: number; // the line in it; 0: unknown
  readonly function: string; // the function around the line
  readonly text: string; // the line as it was when the dump was made; empty: unknown
}

// An argument of an operator.
export interface OpAttribute {
  readonly name: string; // its name
  readonly value: string; // its value
}

// A tensor of an operator.
export interface Slot {
  readonly op_name: string; // the full name of the operator; empty: no operator made the tensor
  readonly side: "input" | "output"; // whether the operator reads or writes it
  readonly slot: number | null; // its number on its side; null: an internal result
  readonly parameter?: string; // where no op made it: the parameter or data
}

// A call of another rank that meets this one.
export interface RankCall {
  readonly rank: string; // its number, or `0 of run7`
  readonly step: number; // the number of the step
  readonly op_name: string; // the full name of the operator
}

// What a call of a collective says about the ranks that it is between.
export interface OpCollective {
  readonly group: string; // its name, with its ranks; empty: unknown
  readonly ranks: readonly number[]; // those of the group, in its order; empty: unknown
  readonly peer?: number; // of a send or a receive: the other rank, where it is known
  readonly root?: number; // the rank that gives or gets, as the call has it
  readonly call_number?: number; // the number of the call among those of its group, from 1
  readonly reduce: string; // how results are joined, as `SUM`; empty: they are not, or unknown
  readonly caller: string; // who calls it, as `DDP bucket 0: fc.weight`; empty: the program's own line
  readonly calls: readonly RankCall[]; // the same call on other ranks of this dump, at most 15; of a send or a receive none
}

// A tensor of the operator, with its makers and readers.
export interface OpTensor {
  readonly tensor: Tensor; // the tensor
  readonly class: "not_recorded" | "fine" | "not_measured" | "healthy_infinity" | "unjudged_infinity" | "infinity" | "nan"; // its state
  readonly has_values: boolean; // the dump has its file
  readonly maker: Slot | null; // of an input; null: not known
  readonly readers: readonly Slot[]; // in this step, in the order of the run
  readonly evidence: "recorded" | "framework_graph" | "equal_values" | "unknown"; // from where the data flow is known
}

// The answer of `op`.
export interface Op {
  readonly rank: string; // its number, or `0 of run7`
  readonly run: number; // the number of the run in its rank
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the number of the step
  readonly op_name: string; // the full name of the operator
  readonly op_type: string; // the type of the operator
  readonly scope: string; // the modules around it; empty: unknown
  readonly phase: "forward" | "backward" | "optimizer" | "outside" | "recompute"; // when the operator ran
  readonly is_parameter: boolean; // a parameter, not an operator
  readonly failed: boolean; // it threw
  readonly timestamp_us: number; // when it was read, in microseconds since 1970
  readonly class: "not_recorded" | "fine" | "not_measured" | "healthy_infinity" | "unjudged_infinity" | "infinity" | "nan"; // the worst of what it made, and of what it read from outside the step
  readonly code: Code; // its line
  readonly stack: readonly CodeLine[]; // innermost first
  readonly attributes: readonly OpAttribute[]; // its arguments
  readonly collective?: OpCollective; // of a call that several ranks make together
  readonly tensors: readonly OpTensor[]; // its inputs and outputs
  readonly same_line: readonly string[]; // full names of the ops of its line in this step
  readonly previous: string | null; // the op before it in the order of the run
  readonly next: string | null; // the op after it
  readonly steps: readonly number[]; // the steps of this graph and rank that have an op of this name
  readonly generation: number; // of the dump
}

// An operator of a way through a step.
export interface PathOp {
  readonly op_name: string; // the full name of the operator
  readonly op_type: string; // the type of the operator
  readonly phase: "forward" | "backward" | "optimizer" | "outside" | "recompute"; // when the operator ran
  readonly source_file: string; // the file of the user's program; empty: unknown
  readonly source_line: number; // the line in it; 0: unknown
  readonly input_slot: number | null; // the input by which the way enters the op
  readonly output_slot: number | null; // the output by which it goes on
  readonly class: "not_recorded" | "fine" | "not_measured" | "healthy_infinity" | "unjudged_infinity" | "infinity" | "nan"; // the worst of what it made, and of what it read from outside the step
  readonly tensor: Tensor | null; // that output, or its first one
}

// The answer of `path`.
export interface Path {
  readonly direction: "cause" | "effect"; // where the way leads
  readonly complete: boolean; // false: the dump lacks the data flow of a part of the way
  readonly ops: readonly PathOp[]; // in the order of the run
  readonly reaches: string; // where the way ends: a parameter, `the loss`, input data
  readonly before: readonly EarlierOp[]; // to the cause: the way through earlier steps to what the first of `ops` read, in the order of the run
  readonly missing: string; // to the cause: what was read from before the step, where the dump does not hold its writer, and what to record; else empty
  readonly generation: number; // of the dump
}

// The answer of `tensor/histogram`.
export interface Histogram {
  readonly tensor: Tensor; // the tensor
  readonly scale: "linear" | "log" | "symlog"; // how the edges are placed
  readonly edges: readonly Numeric[]; // one more than `counts`
  readonly counts: readonly number[]; // finite elements in each bin. Complex: of their magnitudes
  readonly below: number; // finite elements below the first edge
  readonly above: number; // finite elements above the last edge
  readonly zero_count: number; // elements equal to 0
  readonly nan_count: number; // elements that are NaN
  readonly positive_inf_count: number; // elements that are +inf
  readonly negative_inf_count: number; // elements that are -inf
}

// The answer of `tensor/next`; `index` null: there is no such element.
export interface Element {
  readonly index: readonly number[] | null; // its place
  readonly flat: number | null; // in C order
  readonly value: Numeric | null; // its value
  readonly text: string; // the shortest text that reads back as the same number; empty: no such element
}

// How far a dump is read.
export interface Progress {
  readonly work: string; // what is done
  readonly done: number; // how much of it
  readonly all: number; // of how much; 0: not known
}

// The first NaN of a run that goes on, by its statistics: known before the tables are read again.
export interface FirstNan {
  readonly dump: number; // the number for `dump=`
  readonly rank: string; // its number, or `0 of run7`
  readonly graph: number; // 0 for training, 1 for evaluation
  readonly step: number; // the number of the step
  readonly op_name: string; // the full name of the operator
  readonly side: "input" | "output"; // whether the operator reads or writes it
  readonly slot: number; // its number on its side
}

// A dump of the server.
export interface DumpStatus {
  readonly dump: number; // the number for `dump=`
  readonly role: "target" | "golden"; // what a comparison takes it for
  readonly name: string; // last part of its path
  readonly path: string; // its path
  readonly state: "ready" | "live" | "indexing" | "failed"; // its state
  readonly error: string; // why it failed; empty: it did not
  readonly progress: Progress | null; // null: it is not being read
  readonly index: "none" | "saved" | "memory"; // where its index is
  readonly generation: number; // grows with every change of the dump
  readonly ended: "unknown" | "finished" | "stopped" | "killed" | "live"; // how its last run ended; `stopped`: an error ended the recording, `runs` of `overview` name it
  readonly first_nan: FirstNan | null; // null: none was seen while its run went on
  readonly looks: number; // how often the server has looked whether it changed
  readonly looking_seconds: number; // time of these looks, and of reading what had changed, without the first reading
  readonly has_values: boolean; // some tensors have files
  readonly has_statistics: boolean; // some tensors have statistics
  readonly has_data_flow: boolean; // it says which op made an input
}

// The limits of a request and of an answer.
export interface ServerLimits {
  readonly header_bytes: number; // of the head of a request
  readonly body_bytes: number; // of its body
  readonly connections: number; // at the same time
  readonly idle_seconds: number; // until the next request of a connection
  readonly request_seconds: number; // for the whole of a request, and for each megabyte of an answer
  readonly jobs_waiting: number; // jobs that wait
  readonly rows: number; // the largest `limit` of a table as JSON
  readonly exported_rows: number; // the largest `limit` of a table as CSV or Arrow
  readonly histogram_bins: number; // bins of a histogram
  readonly values_bytes: number; // bytes of `tensor/values`
  readonly picture_cells: number; // cells of a picture or a map, each way
}

// The answer of `status`.
export interface Status {
  readonly version: string; // of Sonde
  readonly state: "ready" | "live" | "indexing" | "failed"; // of all dumps, the worst
  readonly generation: number; // grows with every change of a dump
  readonly has_page: boolean; // the page is built in
  readonly dumps: readonly DumpStatus[]; // the target first
  readonly limits: ServerLimits; // of the server
}

// The answer of `jobs/{job}`: a command that runs beside the server.
export interface Job {
  readonly job: number; // its number
  readonly kind: "first-bad" | "compare" | "watch" | "stomp" | "measure" | "report" | "next-config" | "headroom"; // what it does
  readonly arguments: JobArguments; // as the request gave them
  readonly command: string; // the command that gives the same answer
  readonly state: "waiting" | "running" | "done" | "failed" | "cancelled"; // its state
  readonly created_us: number; // when it was asked for, in microseconds since 1970
  readonly started_us: number; // its begin, in microseconds since 1970
  readonly ended_us: number; // its end, in microseconds since 1970; 0: it has none
  readonly exit_status: number | null; // that of the verb: 0 nothing wrong, 1 a finding, 2 bad usage, 3 something could not be read
  readonly error: string; // why it failed; empty: it did not
  readonly file: string; // name of the file that `jobs/{job}/file` gives; empty: there is none
  readonly result: Readonly<Record<string, unknown>> | null; // the document of the verb's --json, of `measure` Measured, of `next-config` the configuration; null until it is done, and in the list of jobs
}

// The answer of `jobs`.
export interface Jobs {
  readonly jobs: readonly Job[]; // the newest first
}

// The body of a request for a job.
export interface JobRequest {
  readonly kind: "first-bad" | "compare" | "watch" | "stomp" | "measure" | "report" | "next-config" | "headroom"; // what it shall do
  readonly arguments?: JobArguments; // those of its kind
}

// The result of a job `measure`.
export interface Measured {
  readonly measured: number; // tensors that now have statistics
  readonly problems: readonly Problem[]; // what could not be read, or not wholly; the rest was looked at all the same
  readonly warnings: readonly string[]; // other facts that the user should know, as on standard error
}

// The answer of `conditions`.
export interface Conditions {
  readonly conditions: readonly Condition[]; // those that a job `watch` takes
}

// The arguments of jobs.
export interface JobArguments {
  readonly dump?: number; // the number of the dump; not of compare. `measure` has no other argument
  readonly golden?: boolean; // report: with the other dump
  readonly mapping?: string; // compare: the text of a mapping file (docs/compare.md)
  readonly rtol?: number; // compare: relative tolerance; replaces the derived tolerance of each operator
  readonly atol?: number; // compare: absolute tolerance; replaces the derived one too
  readonly steps?: string; // compare, first-bad, headroom, report, stomp, watch: steps to include, as 3, 0-5 or 1|4 (default: all that both have)
  readonly graph?: number; // compare, first-bad, headroom, report, stomp, watch: 0 training, 1 and 2 without gradients (default: all)
  readonly rank?: number; // compare, first-bad, headroom, report, stomp, watch: only this process (default: all)
  readonly request?: string; // compare, first-bad, headroom, stomp, watch: steps of a serving engine that worked on this request
  readonly csv?: boolean; // compare: write a row for each output, too
  readonly select?: readonly string[]; // headroom, report, watch: ops to include, by full name, last part of it, or type; '*' stops at '/', '**' does not; repeatable (default: all)
  readonly dtypes?: readonly string[]; // headroom: a type to ask about, as float16, float8_e5m2 or float4_e2m1fn; repeatable (default: float16, bfloat16, float8_e4m3fn, float8_e5m2)
  readonly scale?: "none" | "tensor" | "block"; // headroom: what the values are multiplied by first: none, a number for each tensor, or a power of two for each block of 32 neighbours (default: none)
  readonly side?: "output" | "input" | "both"; // headroom, watch: which tensors of the ops: output, input or both (default: output)
  readonly values?: "none" | "suspects" | "selected"; // report: elements of tensors: none; suspects (default): of what first-bad and compare name; selected: of the operators of --select too
  readonly max_size?: string; // report: largest file, as 500K or 10M (default: 10M; at most 100M)
  readonly redact?: boolean; // report: leave out host, paths, command, source and values, and turn names into numbers
  readonly conditions?: readonly string[]; // watch: a condition and its parameters, as tensor_overflow or tensor_too_large:abs_mean_gt=10; repeatable
  readonly recommended?: boolean; // watch: the set that MindSpore's debugger recommends
  readonly op?: string; // watch: ops whose full name holds a match of this regular expression
  readonly category?: "tensor" | "weight" | "gradient" | "activation"; // watch: ops of this kind: weight, gradient, activation or tensor (all)
  readonly source?: string; // watch: ops called from such a line, as train.py:49, or with this code in it
}

// Columns of tables that hold texts.
export const TEXT_COLUMNS: readonly string[] = ["class", "dtype", "function", "key", "md5", "op_name", "op_type", "parameter", "phase", "placement", "rank", "row", "scope", "sha1", "shape", "side", "skipped", "source_file", "tensor_file", "worst_op"];
