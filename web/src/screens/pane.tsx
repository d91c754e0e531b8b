// The selected operator beside another screen.
import type { Op } from "../api.ts";
import { Suggestions } from "../frame.tsx";
import { shortName } from "../names.ts";
import { CodeLines } from "../parts/code.tsx";
import { shortScope, splitName } from "../parts/op_name.tsx";
import { WayBack } from "../parts/way_back.tsx";
import { Await, ClassMark, lineOf } from "../parts/ui.tsx";
import { Refusal } from "../source/source.ts";
import { change, hasOp, hasPath, linkTo, params, parseSlot, place, useJson } from "../state.ts";
import { words } from "../words.ts";
import { CollectiveCard } from "./collective.tsx";
import { TensorCard } from "./tensor_card.tsx";

export function Pane() {
  const name = params.value.op ?? "";
  const op = useJson<Op>(name ? "op" : null, { ...place.value, name });
  const chosen = parseSlot(params.value.t);
  const { own, scope } = splitName(name);
  return (
    <aside class="pane" aria-label={words.screens.op}>
      <header>
        <div>
          <h2 title={name}>{shortName(own)}</h2>
          <p class="scope">{shortScope(scope)}</p>
        </div>
        <button type="button" class="small" aria-label={words.op.close} onClick={() => change({ op: undefined, t: undefined })}>✕</button>
      </header>
      <p class="buttons">
        {hasOp(name) && <a class="button primary" href={linkTo("op")}>{words.op.open}</a>}
        {op.value && hasPath("cause") && <WayBack state={op.value.class} name={name} step={op.value.step} />}
      </p>
      {op.error instanceof Refusal && op.error.status === 404 && <><p>{words.op.missing}</p><Suggestions name={name} /></>}
      <Await of={op}>
        {(value) => (
          <>
            <p><ClassMark state={value.class} word /></p>
            {value.code.source_file && <p class="where">{lineOf(value.code.source_file, value.code.source_line)} {value.code.function}</p>}
            <CodeLines lines={value.code.lines} marked={value.code.source_line} />
            <CollectiveCard op={value} />
            {value.tensors.map((tensor) => (
              <TensorCard key={tensor.tensor.side + tensor.tensor.slot} of={tensor}
                chosen={params.value.t !== undefined && tensor.tensor.side === chosen.side && tensor.tensor.slot === chosen.slot} />
            ))}
          </>
        )}
      </Await>
    </aside>
  );
}
