// Made from openapi.json by scripts/api_types.mjs; a change here is lost.
export type * from "./answers.ts";

// A number; one that JSON does not have is a text.
export type Number = number | "nan" | "inf" | "-inf";

// A number; null: nobody knows it.
export type KnownNumber = Number | null;

// The state of a tensor, an op or a cell; of several the worst. `unjudged_infinity`: no first-bad job has run that could say whether it is healthy.
export type Class = "not_recorded" | "fine" | "not_measured" | "healthy_infinity" | "unjudged_infinity" | "infinity" | "nan";

// RFC 9457.
export interface Error {
  readonly title: string; // The words of the status.
  readonly status: number;
  readonly detail: string; // The operation, the object, the cause and a cure.
}

export interface HealthRow {
  readonly row?: string; // The scope, the op's full name, or the rank.
  readonly row_number?: number; // Rows in the order of the run, or of the ranks, from 0; equal for all ranks.
  readonly rank?: string; // The rank: its number, or `0 of run7` where the path holds several dumps.
  readonly graph?: number; // 0 training, 1 and 2 without gradients.
  readonly column?: number; // Columns from 0.
  readonly first_step?: number; // First step of the column.
  readonly last_step?: number; // Last step of the column.
  readonly class?: Class; // The worst of the cell.
  readonly ops?: number; // Ops below.
  readonly tensors?: number; // Recorded tensors below.
  readonly nan_tensors?: number; // Tensors with a NaN.
  readonly inf_tensors?: number; // Tensors with an infinity.
  readonly not_measured?: number; // Tensors whose values nobody has looked at.
  readonly worst_op?: string; // The first op of the worst class.
  readonly worst_step?: number; // The step of that op.
  readonly has_children?: boolean; // It has scopes or ops below.
  readonly row_count?: number; // All rows of this map, also those that `rows` leaves out.
}

export interface OpsRow {
  readonly rank?: string; // The rank: its number, or `0 of run7` where the path holds several dumps.
  readonly run?: number; // The run of the rank, from 0.
  readonly graph?: number; // 0 training, 1 and 2 without gradients.
  readonly step?: number; // The number of the step.
  readonly op_name?: string; // Full name.
  readonly op_type?: string; // Type.
  readonly scope?: string; // The modules around it.
  readonly phase?: "forward" | "backward" | "optimizer" | "outside" | "recompute"; // The part of the step.
  readonly is_parameter?: boolean; // A parameter, input data or a constant.
  readonly source_file?: string; // Empty: unknown.
  readonly source_line?: number; // 0: unknown.
  readonly function?: string; // Empty: unknown.
  readonly timestamp_us?: number; // Since 1970.
  readonly tensors?: number; // Recorded tensors.
  readonly class?: Class; // The worst of what it made, and of what it read from outside the step.
  readonly nan_tensors?: number; // Its tensors with a NaN.
  readonly inf_tensors?: number; // Its tensors with an infinity.
  readonly not_measured?: number; // Its tensors whose values nobody has looked at.
  readonly op_id?: number; // The position in the order of the run; valid in this generation.
}

export interface TensorsRow {
  readonly rank?: string; // The rank: its number, or `0 of run7` where the path holds several dumps.
  readonly run?: number; // The run of the rank, from 0.
  readonly graph?: number; // 0 training, 1 and 2 without gradients.
  readonly step?: number; // The number of the step.
  readonly op_name?: string; // Full name.
  readonly op_type?: string; // Type.
  readonly scope?: string; // The modules around it.
  readonly phase?: "forward" | "backward" | "optimizer" | "outside" | "recompute"; // The part of the step.
  readonly is_parameter?: boolean; // A parameter, input data or a constant.
  readonly side?: "input" | "output"; // Input or output.
  readonly slot?: number; // Its number.
  readonly parameter?: string; // The parameter, gradient or state that it is; empty: none.
  readonly key?: string; // The name of a slot that is not a number; empty: none.
  readonly placement?: string; // How it is part of a distributed tensor; empty: it is not a part.
  readonly dtype?: string; // `?`: unknown.
  readonly shape?: readonly (number)[] | null; // Arrow: the text `(2,3)`.
  readonly max?: KnownNumber; // the largest value
  readonly min?: KnownNumber; // the smallest value
  readonly avg?: KnownNumber; // the mean
  readonly l2norm?: KnownNumber; // the square root of the sum of squares
  readonly count?: number | null; // elements
  readonly nan_count?: number | null; // elements that are NaN
  readonly positive_inf_count?: number | null; // elements that are +inf
  readonly negative_inf_count?: number | null; // elements that are -inf
  readonly positive_count?: number | null; // elements above 0
  readonly negative_count?: number | null; // elements below 0
  readonly zero_count?: number | null; // elements equal to 0
  readonly md5?: string | null; // Of its bytes.
  readonly sha1?: string | null; // Of its bytes.
  readonly skipped?: string | null; // The reason why it was not read.
  readonly tensor_file?: string | null; // The file with the values.
  readonly source_file?: string; // Empty: unknown.
  readonly source_line?: number; // 0: unknown.
  readonly function?: string; // Empty: unknown.
  readonly timestamp_us?: number; // Since 1970.
  readonly class?: Class; // Its state.
  readonly op_id?: number; // The op's position in the order of the run; valid in this generation.
}

export interface GraphNodeRow {
  readonly node?: number; // Number of the node, in the order of the run.
  readonly op_name?: string; // Full name.
  readonly op_type?: string; // Type.
  readonly scope?: string; // The modules around it.
  readonly phase?: "forward" | "backward" | "optimizer" | "outside" | "recompute"; // The part of the step.
  readonly source_file?: string; // Empty: unknown.
  readonly source_line?: number; // 0: unknown.
  readonly function?: string; // Empty: unknown.
  readonly dtype?: string; // Of its first output; `?`: unknown.
  readonly shape?: readonly (number)[] | null; // Of its first output. Arrow: the text `(2,3)`.
  readonly l2norm?: KnownNumber; // Of its first output.
  readonly class?: Class; // The worst of what it made, and of what it read from outside the step.
}

export interface GraphEdgeRow {
  readonly from_node?: number | null; // Null: no op of the step made it; `parameter` names it.
  readonly from_slot?: number | null; // Output slot of `from_node`; null: an internal result, or no node.
  readonly to_node?: number; // The reader.
  readonly to_slot?: number; // Its input slot.
  readonly parameter?: string | null; // Parameter or data, where no node made it.
  readonly class?: Class; // Of the tensor that flows.
}

export interface TrendRow {
  readonly rank?: string; // The rank: its number, or `0 of run7` where the path holds several dumps.
  readonly graph?: number; // 0 training, 1 and 2 without gradients.
  readonly step?: number; // The number of the step.
  readonly max?: KnownNumber; // the largest value
  readonly min?: KnownNumber; // the smallest value
  readonly avg?: KnownNumber; // the mean
  readonly l2norm?: KnownNumber; // the square root of the sum of squares
  readonly count?: number | null; // elements
  readonly nan_count?: number | null; // elements that are NaN
  readonly positive_inf_count?: number | null; // elements that are +inf
  readonly negative_inf_count?: number | null; // elements that are -inf
  readonly positive_count?: number | null; // elements above 0
  readonly negative_count?: number | null; // elements below 0
  readonly zero_count?: number | null; // elements equal to 0
  readonly class?: Class; // Its state.
}

export interface CurvesRow {
  readonly row?: number; // The row of the table, with `offset`.
  readonly column?: number; // Columns from 0.
  readonly first_step?: number; // First step of the column that has the tensor.
  readonly last_step?: number; // Last step of the column that has the tensor.
  readonly value?: KnownNumber; // The statistic; null: nobody measured it.
  readonly class?: Class; // The worst class of the tensor in these steps.
}

export interface GradientsRow {
  readonly parameter?: string; // Parameter, or the op that gives the gradient.
  readonly row_number?: number; // Rows from 0, in the order of the run.
  readonly rank?: string; // The rank: its number, or `0 of run7` where the path holds several dumps.
  readonly graph?: number; // 0 training, 1 and 2 without gradients.
  readonly column?: number; // Columns from 0.
  readonly first_step?: number; // First step of the column.
  readonly last_step?: number; // Last step of the column.
  readonly l2norm?: KnownNumber; // The largest of the cell; null: unknown.
  readonly class?: Class; // The worst of the cell.
}

export interface TensorHeatRow {
  readonly row?: number; // Row of the picture.
  readonly column?: number; // Column of the picture.
  readonly min?: KnownNumber; // Of its finite elements; null: none is finite.
  readonly mean?: KnownNumber; // Of its finite elements.
  readonly max?: KnownNumber; // Of its finite elements.
  readonly bad?: number; // Bits: 1 NaN, 2 infinity, 4 negative infinity; one element is enough.
}

// As `ops` in docs/json/compare.schema.json.
export type PairsRow = Record<string, unknown>;
