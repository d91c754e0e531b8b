// The command, or the line of Python, that gives the numbers of a view. Empty: there is none, or a report does not say the names.
import { dumpStatus, dumpWord, exactly, graph, rank, report, step } from "./state.ts";

const isNumber = (text: string): boolean => /^\d+$/.test(text);
const word = (text: string): string => (/^[\w./:=,+@%-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

// `sonde VERB DUMP …`, of the shown rank and graph; `at`: a step, or a range of steps.
export function command(verb: string, rest: readonly string[] = [], at: number | string | null = step.value): string {
  if (report.value?.is_redacted || !isNumber(rank.value)) return "";
  const steps = at === null ? [] : [`--step ${at}`];
  return [`sonde ${verb}`, dumpWord(), ...rest.map(word), ...steps, `--graph ${graph.value}`, `--rank ${rank.value}`].join(" ");
}

// Of the whole dump.
export const plainCommand = (verb: string): string => (report.value?.is_redacted ? "" : `sonde ${verb} ${dumpWord()}`);

export interface TensorName {
  op_name: string;
  side: string;
  slot: number;
}

export const showCommand = ({ op_name, side, slot }: TensorName, more: readonly string[] = [], at: number | null = step.value): string =>
  command("show", [`${op_name}:${side}.${slot}`, ...more], at);

const opened = (): string => `sonde.open(${JSON.stringify(dumpStatus.value?.path ?? "")})`;

// The line of Python that opens the same tensor; `slice`: "[0,:,:]".
export function pythonTensor({ op_name, side, slot }: TensorName, slice = "", at = step.value): string {
  if (report.value?.is_redacted) return "";
  return `${opened()}.tensors.select(op=${JSON.stringify(exactly(op_name))}, step=${at}, side="${side}", slot=${slot})[0].numpy()${slice}`;
}

export const pythonOp = (name: string): string => `${opened()}.ops.select(op=${JSON.stringify(exactly(name))}, step=${step.value})[0]`;

export const pythonGradients = (): string =>
  report.value?.is_redacted ? "" : `[(t.step, t.parameter, t.statistics.l2norm) for t in ${opened()}.tensors if t.parameter.endswith(".grad") and t.statistics]`;
