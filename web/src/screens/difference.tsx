// A tensor beside itself in the step before, and beside its counterpart in the golden dump, element by element.
import { useMemo, useState } from "preact/hooks";
import { type Cells, differencesOf, over, sameShape } from "../difference.ts";
import { formatCount, toNumber } from "../numbers.ts";
import { type Npy, readNpy } from "../npy.ts";
import { type Cursor, HeatPicture } from "../parts/heat.tsx";
import { SliceField, sliceOf } from "../parts/slice.tsx";
import { Await, Empty } from "../parts/ui.tsx";
import type { Query } from "../source/source.ts";
import { keyOf, linkTo, useData } from "../state.ts";
import { words } from "../words.ts";
import { pairOf, useComparison } from "./comparison.ts";
import type { OpTensor } from "./tensor_card.tsx";

function useValues(query: Query | null) {
  return useData(query && keyOf("tensor/values", query), async (from, signal) => readNpy(await from.bytes("tensor/values", query ?? {}, signal)));
}

const HEIGHT = 190; // all pictures are in the window at once

interface Picture {
  label: string;
  cells: Cells;
}

function Pictures({ of }: { of: readonly Picture[] }) {
  const [cursor, setCursor] = useState<Cursor>(null);
  return (
    <div class="pictures">
      {of.map(({ label, cells }) => (
        <section key={label}>
          <h3>{label}</h3>
          <HeatPicture cells={cells} label={label} cursor={cursor} onCursor={setCursor} most={HEIGHT} />
        </section>
      ))}
    </div>
  );
}

export function PreviousTab({ query, shape, before }: { query: Query; shape: readonly number[]; before: number }) {
  const [tolerance, setTolerance] = useState(0);
  const slice = sliceOf(shape, query);
  const now = useValues({ ...query, slice });
  const old = useValues({ ...query, step: before, slice });
  return (
    <>
      <div class="toolbar">
        <SliceField shape={shape} query={query} />
        <label class="check">
          {words.previous.tolerance}{" "}
          <input type="range" min="0" max="1" step="0.01" value={tolerance} onInput={(event) => setTolerance(Number(event.currentTarget.value))} />{" "}
          <output>{tolerance.toFixed(2)}</output>
        </label>
      </div>
      <Await of={now}>
        {(current) => <Await of={old}>{(previous) => <Changes now={current} old={previous} tolerance={tolerance} />}</Await>}
      </Await>
    </>
  );
}

function Changes({ now, old, tolerance }: { now: Npy; old: Npy; tolerance: number }) {
  const same = sameShape(now, old);
  const found = useMemo(() => (same ? differencesOf(now, old, (previous) => tolerance * Math.abs(previous)) : null), [now, old, tolerance]);
  if (!found) return <Empty>{words.previous.shape(now.shape.join(), old.shape.join())}</Empty>;
  return (
    <>
      <p class="read-out" aria-live="polite">{words.previous.changed(formatCount(found.beyond), formatCount(found.elements))}</p>
      <Pictures of={[
        { label: words.previous.old, cells: found.right }, { label: words.previous.now, cells: found.left }, { label: words.previous.difference, cells: found.difference },
      ]} />
    </>
  );
}

export function GoldenTab({ query, shape, of }: { query: Query; shape: readonly number[]; of: OpTensor }) {
  const comparison = useComparison();
  const pair = comparison.value ? pairOf(comparison.value, query) : undefined;
  const name = pair?.golden[0];
  const slice = sliceOf(shape, query);
  const target = useValues(name ? { ...query, slice } : null);
  const golden = useValues(name ? { ...query, dump: 1, name, slice } : null);
  if (comparison.error || comparison.loading) return <Await of={comparison}>{() => null}</Await>;
  if (!comparison.value) return <Empty>{words.golden.first} <a href={linkTo("compare")}>{words.screens.compare}</a></Empty>;
  if (!name) return <Empty>{words.golden.none}</Empty>;
  const bound = toNumber(pair?.outputs.find(({ side, slot }) => side === of.tensor.side && slot === of.tensor.slot)?.rounding_max);
  return (
    <>
      <div class="toolbar"><SliceField shape={shape} query={query} /></div>
      <Await of={target}>{(mine) => <Await of={golden}>{(other) => <Beside target={mine} golden={other} bound={bound} />}</Await>}</Await>
    </>
  );
}

function Beside({ target, golden, bound }: { target: Npy; golden: Npy; bound: number }) {
  const found = useMemo(() => (sameShape(target, golden) ? differencesOf(target, golden, () => 0) : null), [target, golden]);
  if (!found) return <Empty>{words.previous.shape(target.shape.join(), golden.shape.join())}</Empty>;
  const pictures: Picture[] = [
    { label: words.golden.target, cells: found.left }, { label: words.golden.golden, cells: found.right }, { label: words.golden.difference, cells: found.difference },
  ];
  if (bound > 0) pictures.push({ label: words.golden.over, cells: over(found.difference, bound) });
  return (
    <>
      <p class="read-out">{words.golden.differ(formatCount(found.beyond), formatCount(found.elements))}</p>
      <Pictures of={pictures} />
      {!(bound > 0) && <Empty>{words.golden.noBound}</Empty>}
    </>
  );
}
