// Operators of the shown graph by a part of their name, in the order of the run: Enter goes to the next one, Shift+Enter back. Their
// scopes open on the way.
import { useMemo, useRef, useState } from "preact/hooks";
import type { GraphModel } from "../graph/model.ts";
import { shortScope, splitName } from "../parts/op_name.tsx";
import { change, params } from "../state.ts";
import { words } from "../words.ts";

const MOST_LISTED = 200;

export function GraphSearch({ of }: { of: GraphModel }) {
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const frame = useRef<HTMLDivElement>(null);
  const wanted = text.trim().toLowerCase();
  const hits = useMemo(
    () => (wanted ? [...of.opItems.values()].filter((item) => item.op?.name.toLowerCase().includes(wanted)).sort((a, b) => a.order - b.order).map((item) => item.op?.name ?? "") : []),
    [of, wanted],
  );
  const at = hits.indexOf(params.value.op ?? "");
  const choose = (place: number): void => {
    const name = hits[(place + hits.length) % hits.length];
    if (name) change({ op: name, t: undefined });
  };
  const key = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && hits.length) choose(event.shiftKey ? (at < 0 ? -1 : at - 1) : at + 1);
    else if (event.key === "Escape") setOpen(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="graph-search" ref={frame} onFocusOut={(event) => !frame.current?.contains(event.relatedTarget as Node | null) && setOpen(false)}>
      <input type="search" value={text} placeholder={words.graph.find} aria-label={words.graph.find} spellcheck={false} onKeyDown={key} onFocus={() => setOpen(true)}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setOpen(true);
        }} />
      {wanted && <span class="graph-found" role="status">{words.graph.found(at + 1, hits.length)}</span>}
      {open && hits.length > 0 && (
        <ol class="graph-hits">
          {hits.slice(0, MOST_LISTED).map((name, i) => (
            <li key={name} class={i === at ? "chosen" : ""}>
              <button type="button" class="plain" title={name} onClick={() => choose(i)}>
                {splitName(name).own} <small class="soft">{shortScope(splitName(name).scope)}</small>
              </button>
            </li>
          ))}
          {hits.length > MOST_LISTED && <li class="soft">{words.op.more(hits.length - MOST_LISTED)}</li>}
        </ol>
      )}
    </div>
  );
}
