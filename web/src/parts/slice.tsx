// The part of a tensor that is shown, as in NumPy: in the address as `at`.
import { answerKey } from "../source/embedded.ts";
import type { Query } from "../source/source.ts";
import { change, params, report } from "../state.ts";
import { words } from "../words.ts";

// The first two axes that are longer than one are shown: ":" for them, 0 before.
function firstSlice(shape: readonly number[]): string {
  return `[${shape.map((_, axis) => (axis < shape.length - 2 ? "0" : ":")).join(",")}]`;
}

// A report has one slice of a tensor.
export function sliceOf(shape: readonly number[], query: Query): string {
  const chosen = params.value.at;
  const embedded = report.value?.slices[answerKey("tensor/values", query)];
  if (embedded !== undefined && !chosen) return embedded;
  return chosen ? `[${chosen.replace(/[[\]\s]/g, "")}]` : shape.length > 2 ? firstSlice(shape) : "";
}

export function SliceField({ shape, query }: { shape: readonly number[]; query: Query }) {
  const shown = sliceOf(shape, query) || `[${shape.map(() => ":").join(",")}]`;
  return (
    <label class="slice">
      <span>{words.values.slice}</span>
      <input key={shown} defaultValue={shown} title={words.values.sliceHint} spellcheck={false}
        onChange={(event) => change({ at: event.currentTarget.value.replace(/[[\]\s]/g, "") || undefined })} />
    </label>
  );
}
