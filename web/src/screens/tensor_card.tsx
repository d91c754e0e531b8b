// One input or output of an operator: type, shape, statistics, where it comes from, who reads it.
import type { Tensor } from "../answers.ts";
import type { Op } from "../api.ts";
import { formatCount, formatNumber, formatShape } from "../numbers.ts";
import { BadCount, isCounted } from "../parts/count.tsx";
import { OpLink } from "../parts/op_name.tsx";
import { PlacementText } from "../parts/placement.tsx";
import { ClassMark } from "../parts/ui.tsx";
import { formatSlot, linkTo, place } from "../state.ts";
import { words } from "../words.ts";

export type OpTensor = Op["tensors"][number];

const MOST_READERS = 4;

export function TensorCard({ of, chosen }: { of: OpTensor; chosen: boolean }) {
  const { tensor, maker, readers, evidence } = of;
  const slot = formatSlot(tensor);
  return (
    <article class={`tensor-card${chosen ? " chosen" : ""}`}>
      <h3>
        <a href={linkTo("op", { op: tensor.op_name, t: slot, at: undefined })} aria-current={chosen ? "true" : undefined}>
          {tensor.side}.{tensor.slot}
        </a>
        <span class="type">{tensor.dtype} {formatShape(tensor.shape)}</span>
        <ClassMark state={of.class} />
      </h3>
      <Statistics of={tensor} hasValues={of.has_values} />
      <p class="flow">
        {tensor.parameter && <span>{words.op.parameter} <code>{tensor.parameter}</code></span>}
        {tensor.placement && <PlacementText of={tensor.placement} />}
        {maker && maker.op_name && (
          <span>{words.op.maker} <OpLink name={maker.op_name} patch={{ t: formatSlot(maker) }} scope={false} />{evidence === "equal_values" && <em> ({words.op.guess})</em>}</span>
        )}
        {readers.length > 0 && (
          <span>
            {words.op.readers}{" "}
            {readers.slice(0, MOST_READERS).map((reader, i) => (
              <span key={i}>{i > 0 && ", "}<OpLink name={reader.op_name} patch={{ t: formatSlot(reader) }} scope={false} /></span>
            ))}
            {readers.length > MOST_READERS && ` + ${words.op.more(readers.length - MOST_READERS)}`}
          </span>
        )}
        {tensor.skipped && <span>{words.op.skipped}: {tensor.skipped}</span>}
      </p>
    </article>
  );
}

export function Statistics({ of, hasValues }: { of: Tensor; hasValues: boolean }) {
  if (isCounted(of)) {
    const query = { ...place.value, step: of.step, name: of.op_name, side: of.side, slot: of.slot };
    return <p class="statistics"><BadCount of={of} query={hasValues ? query : null} /></p>;
  }
  if (of.max === undefined || of.max === null) {
    if (!of.count) return <p class="empty">{words.states.notMeasured}</p>;
  }
  const shown: [string, string, string][] = [
    ["max", formatNumber(of.max), ""], ["min", formatNumber(of.min), ""], ["avg", formatNumber(of.avg), ""], ["l2norm", formatNumber(of.l2norm), ""],
  ];
  if (of.nan_count) shown.push(["nan", formatCount(of.nan_count), "nan"]);
  return (
    <dl class="statistics">
      {shown.filter(([, value]) => value !== "").map(([name, value, kind]) => (
        <div key={name} class={kind}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}
