// Made from docs/json/ by scripts/answer_types.mjs; a change here is lost.

// A number; one that JSON does not have is a text.
export type Number = number | "nan" | "inf" | "-inf";

// What could not be read, or not wholly; the rest was looked at all the same. Always there.
export type Problems = readonly ({
  readonly path: string; // Empty where the message names the place.
  readonly message: string;
})[];

// What else is worth a word, as on standard error.
export type Warnings = readonly (string)[];

// Why the call failed; then members of the answer may be missing.
export interface Error {
  readonly message: string;
  readonly status: number; // The exit status.
}

export interface Code {
  readonly source_file: string;
  readonly source_line: number;
  readonly function: string;
  readonly lines: readonly ({
    readonly number: number;
    readonly text: string;
  })[];
}

export interface FindingTensor {
  readonly op_name: string;
  readonly op_type: string;
  readonly side: "input" | "output";
  readonly slot: number;
  readonly parameter: string;
  readonly dtype: string | null;
  readonly shape: readonly (number)[] | null;
  readonly max?: Number;
  readonly min?: Number;
  readonly avg?: Number;
  readonly l2norm?: Number;
  readonly count?: number;
  readonly nan_count?: number;
  readonly positive_inf_count?: number;
  readonly negative_inf_count?: number;
  readonly positive_count?: number;
  readonly negative_count?: number;
  readonly zero_count?: number;
  readonly tensor_file?: string;
}

export interface Finding {
  readonly kind: string;
  readonly severity: string;
  readonly rank: number;
  readonly dump: string; // of the rank, if the path holds several dumps
  readonly graph: number;
  readonly step: number;
  readonly phase: "forward" | "backward" | "optimizer" | "outside" | "recompute";
  readonly op_name: string;
  readonly op_type: string;
  readonly tags: readonly (string)[];
  readonly why: string;
  readonly tensor: FindingTensor;
  readonly numbers: Record<string, Number>;
  readonly evidence: readonly (string)[];
  readonly limits: readonly (string)[];
  readonly code: Code;
}

export interface FirstBad {
  readonly complete: boolean; // everything that was recorded was looked at: without a finding, nothing in it is wrong; false too if an error stopped the recording before a finding
  readonly unfinished: readonly ({
    readonly state: "killed" | "stopped" | "running"; // stopped: by an error of the recording
    readonly rank: number;
    readonly dump: string;
    readonly graph: number;
    readonly step: number; // the last one
    readonly in_step: boolean; // false: the step had ended
    readonly reason: string; // the error that stopped the recording; otherwise empty
  })[]; // ranks whose last run has not ended the recording itself: nobody knows what came after
  readonly first: Finding | null;
  readonly findings: readonly (Finding)[];
  readonly by_rank: readonly (Finding)[]; // the first finding of each rank that its own operators caused, the answer's rank first; without ranks that only received bad values from another
  readonly reaches: string;
  readonly path: readonly (string)[];
  readonly expected: readonly (Finding)[];
  readonly asides: readonly (Finding)[];
  readonly healthy: readonly ({
    readonly tensor: FindingTensor;
    readonly rank: number;
    readonly graph: number;
    readonly step: number;
    readonly places: readonly ({
      readonly rank: number;
      readonly dump: string;
      readonly graph: number;
      readonly steps: string; // as of `--step`: 0-2|5
    })[]; // every rank, graph and step where it is; the names above are those of the first
    readonly how: string;
    readonly absorbed_by: readonly (string)[];
    readonly code: Code;
  })[];
  readonly healthy_left_out: number;
  readonly growth: {
    readonly tensor: FindingTensor;
    readonly rank: number;
    readonly step: number;
    readonly before: Number;
    readonly now: Number;
    readonly of_norm: boolean;
    readonly series: readonly ({
      readonly step: number;
      readonly value: Number;
    })[];
    readonly code: Code;
  } | null; // "grew first": the first tensor that rose to ten times its earlier median and stayed there; no optimizer's state is one
  readonly suspects: readonly (string)[];
  readonly notes: readonly (string)[];
  readonly looked_at: {
    readonly ranks: number;
    readonly steps: number;
    readonly ops: number;
    readonly ops_not_recorded: number;
    readonly tensors: number;
    readonly files_read: number;
  };
  readonly problems: Problems;
  readonly warnings: Warnings;
  readonly error?: Error;
}

export interface CompareTensor {
  readonly side: "input" | "output";
  readonly slot: number;
  readonly parameter: string;
  readonly dtype: string;
  readonly shape: readonly (number)[];
  readonly golden_shape: readonly (number)[];
  readonly compared_by: string;
  readonly equal: boolean;
  readonly beyond: boolean;
  readonly golden_slot?: number;
  readonly problem?: string;
  readonly note?: string;
  readonly relative_error?: Number;
  readonly rms_error?: Number;
  readonly max_error?: Number;
  readonly golden_rms?: Number;
  readonly cosine?: Number;
  readonly worst_value?: Number;
  readonly worst_golden?: Number;
  readonly rounding_rms?: Number;
  readonly rounding_max?: Number;
  readonly propagated_rms?: Number;
  readonly propagated_max?: Number;
  readonly different_non_finite?: number;
  readonly elements?: number;
  readonly mismatches?: number;
  readonly worst_index?: number;
}

export interface Comparison {
  readonly complete: boolean; // everything was looked at: without a finding, nothing is wrong
  readonly findings: readonly ({
    readonly kind: string;
    readonly rank: number;
    readonly graph: number;
    readonly step: number;
    readonly op_name: string;
    readonly op_type: string;
    readonly source_file: string;
    readonly source_line: number;
    readonly in_golden: boolean;
    readonly golden: string;
    readonly text: string;
    readonly tags: readonly ("uncertain")[];
    readonly attributes: readonly (string)[];
    readonly factor?: number;
    readonly tensor?: CompareTensor;
  })[];
  readonly summary: Record<string, number>;
  readonly rtol: number | null;
  readonly atol: number | null;
  readonly notes: readonly (string)[];
  readonly layers?: readonly ({
    readonly layer: string;
    readonly rank: number;
    readonly graph: number;
    readonly step: number;
    readonly op_name: string;
    readonly compared_by: "values" | "statistics";
    readonly introduced: Number;
    readonly error_in: Number;
    readonly error_out: Number;
    readonly signal_to_noise_db: Number;
  })[];
  readonly ops: readonly ({
    readonly rank: number;
    readonly graph: number;
    readonly step: number;
    readonly verdict: string;
    readonly target: readonly (string)[];
    readonly golden: readonly (string)[];
    readonly op_type: string;
    readonly kind: string;
    readonly matched_by: string;
    readonly source_file: string;
    readonly source_line: number;
    readonly function: string;
    readonly inputs: readonly (CompareTensor)[];
    readonly outputs: readonly (CompareTensor)[];
    readonly moved?: true; // It runs at another place than its counterpart, among the pairs of the step.
    readonly reason?: string;
    readonly nearest?: string;
  })[];
  readonly problems: Problems;
  readonly warnings: Warnings;
  readonly error?: Error;
}

export interface StompReport {
  readonly complete: boolean; // everything was looked at: without a finding, nothing is wrong
  readonly findings: readonly (Finding)[];
  readonly findings_left_out: number;
  readonly compared: number;
  readonly watched: number;
  readonly not_observable: number;
  readonly not_known: number;
  readonly problems: Problems;
  readonly warnings: Warnings;
  readonly error?: Error;
}
