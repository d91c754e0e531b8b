// The field of a filter: it takes effect with Enter, or when the field is left.
import { change } from "../state.ts";
import { words } from "../words.ts";

export function FilterField({ value, hint }: { value: string; hint: string }) {
  return (
    <input class="filter" type="search" key={value} defaultValue={value} placeholder={hint} aria-label={words.table.filter} spellcheck={false}
      onChange={(event) => change({ f: event.currentTarget.value.trim() || undefined })} />
  );
}
