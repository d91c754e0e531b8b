// One operator: its line, what it read and wrote, and one of its tensors from near.
import type { Op as OpDocument } from "../api.ts";
import { pythonOp, pythonTensor } from "../commands.ts";
import { Suggestions } from "../frame.tsx";
import { useKeys } from "../keys.ts";
import { shortName } from "../names.ts";
import { CodeLines, CodeText } from "../parts/code.tsx";
import { WayBack } from "../parts/way_back.tsx";
import { OpLink, shortScope, splitName } from "../parts/op_name.tsx";
import { Await, Card, ClassMark, Copy, Empty, lineOf, Problem } from "../parts/ui.tsx";
import { Lacking, Refusal } from "../source/source.ts";
import { change, dumpStatus, firstBad, formatSlot, hasGraph, hasOp, hasPath, linkTo, params, parseSlot, place, report, useJson } from "../state.ts";
import { words } from "../words.ts";
import { useComparison } from "./comparison.ts";
import { CollectiveCard } from "./collective.tsx";
import { FindingOfOp } from "./finding.tsx";
import { DifferenceOfOp, isPair } from "./first_difference.tsx";
import { RequestRows } from "./requests.tsx";
import { TensorCard, type OpTensor } from "./tensor_card.tsx";
import { TensorView } from "./tensor_view.tsx";

export function Op() {
  const name = params.value.op ?? "";
  const op = useJson<OpDocument>(name ? "op" : null, { ...place.value, name });
  useKeys({
    j: () => op.value && moveSlot(op.value, 1),
    k: () => op.value && moveSlot(op.value, -1),
  });
  if (!name) return <div class="page"><h1>{words.screens.op}</h1><Empty>{words.op.none}</Empty></div>;
  if (op.error instanceof Refusal && op.error.status === 404) {
    return (
      <div class="page">
        <h1>{splitName(name).own}</h1>
        <Problem error={op.error} />
        {!(op.error instanceof Lacking) && <Card title={words.op.missing}><Suggestions name={name} /></Card>}
      </div>
    );
  }
  return <Await of={op}>{(value) => <Page op={value} />}</Await>;
}

function moveSlot(op: OpDocument, by: number): void {
  const at = op.tensors.indexOf(chosenOf(op) as OpTensor);
  const next = op.tensors[at + by];
  if (next) change({ t: formatSlot(next.tensor), at: undefined });
}

// The chosen tensor; without a choice the first bad one, else the first output.
function chosenOf(op: OpDocument): OpTensor | undefined {
  const slot = parseSlot(params.value.t);
  const wanted = op.tensors.find(({ tensor }) => tensor.side === slot.side && tensor.slot === slot.slot);
  if (params.value.t !== undefined && wanted) return wanted;
  const outputs = op.tensors.filter(({ tensor }) => tensor.side === "output");
  return outputs.find((tensor) => tensor.class === "nan") ?? outputs[0] ?? op.tensors[0];
}

function Page({ op }: { op: OpDocument }) {
  const { own, scope } = splitName(op.op_name);
  const chosen = chosenOf(op);
  const inputs = op.tensors.filter(({ tensor }) => tensor.side === "input");
  const outputs = op.tensors.filter(({ tensor }) => tensor.side === "output");
  const comparison = useComparison(isPair());
  return (
    <div class="page op-page">
      <header class="op-head">
        <div>
          <h1 title={op.op_name}>{shortName(own)} <ClassMark state={op.class} word /></h1>
          <p class="scope">{shortScope(scope) && <>{shortScope(scope)} <span class="dot">·</span> </>}{op.op_type} <span class="dot">·</span> {words.overview.where(op.rank, op.step, op.is_parameter ? "" : op.phase)}</p>
        </div>
        <div class="buttons">
          {op.previous && hasOp(op.previous) && <a class="button" href={linkTo("op", { op: op.previous, t: undefined })} aria-label={words.op.previous} title={op.previous}>‹</a>}
          {op.next && hasOp(op.next) && <a class="button" href={linkTo("op", { op: op.next, t: undefined })} aria-label={words.op.next} title={op.next}>›</a>}
          {hasPath("cause") && <WayBack state={op.class} name={op.op_name} step={op.step} />}
          {hasPath("effect") && <a class="button" href={linkTo("graph", { path: "effect" })}>{words.op.effect}</a>}
          {hasGraph() && <a class="button" href={linkTo("graph", { path: undefined })}>{words.op.graph}</a>}
          <Copy text={chosen ? pythonTensor(chosen.tensor) : pythonOp(op.op_name)} label={words.copy.python} />
        </div>
      </header>
      {op.failed && <p class="problem">{words.op.failed}</p>}
      <MissingSlot of={op} />
      {comparison.value && <DifferenceOfOp of={comparison.value} name={op.op_name} at={{ rank: op.rank, graph: op.graph, step: op.step }} />}
      {firstBad.value && <FindingOfOp of={firstBad.value} name={op.op_name} step={op.step} />}
      <div class="op-columns">
        <div class="op-left">
          <SourceCard op={op} />
          <CollectiveCard op={op} />
          <RequestRows />
          <Card title={words.op.inputs}>
            {inputs.map((tensor) => <TensorCard key={tensor.tensor.slot} of={tensor} chosen={tensor === chosen} />)}
            {!inputs.length && <Empty>{words.states.nothing}</Empty>}
          </Card>
          <Card title={words.op.outputs}>
            {outputs.map((tensor) => <TensorCard key={tensor.tensor.slot} of={tensor} chosen={tensor === chosen} />)}
            {!outputs.length && <Empty>{words.states.notRecorded}</Empty>}
          </Card>
          {!dumpStatus.value?.has_data_flow && <Empty>{words.states.noFlow}</Empty>}
        </div>
        <div class="op-right">
          {chosen && <TensorView key={op.op_name + formatSlot(chosen.tensor)} of={chosen} op={op} />}
        </div>
      </div>
    </div>
  );
}

// A tensor that the address names and the operator has not.
function MissingSlot({ of }: { of: OpDocument }) {
  const { t } = params.value;
  const there = of.tensors.map(({ tensor }) => formatSlot(tensor));
  if (t === undefined || there.includes(t)) return null;
  return <p class="problem" role="alert">{words.address.fault(words.address.parts.t, t, there.join(", ") || "–")}</p>;
}

function SourceCard({ op }: { op: OpDocument }) {
  const { code } = op;
  return (
    <Card title={words.op.source} extra={(
      <span class="where">
        {lineOf(code.source_file, code.source_line)} {code.function}{" "}
        {code.source_file && !report.value && <a class="button small" href={linkTo("watch", { source: lineOf(code.source_file, code.source_line) })}>{words.op.watch}</a>}
      </span>
    )}>
      {code.lines.length ? <CodeLines lines={code.lines} marked={code.source_line} /> : <Empty>{code.source_file ? words.op.noText : words.op.noSource}</Empty>}
      {op.attributes.length > 0 && (
        <p class="attributes">
          <span class="soft">{words.op.attributes}</span>{" "}
          {op.attributes.map(({ name, value }) => <code key={name}>{name}={value}</code>)}
        </p>
      )}
      {op.stack.length > 1 && (
        <details>
          <summary>{words.op.stack}</summary>
          <ol class="stack">
            {op.stack.map((line, i) => (
              <li key={i}>
                <span class="where" title={line.source_file}>{lineOf(line.source_file, line.source_line)}</span> {line.function}
                {line.text && <CodeText text={line.text} />}
              </li>
            ))}
          </ol>
        </details>
      )}
      {op.same_line.length > 1 && (
        <details>
          <summary>{words.op.sameLine}: {op.same_line.length}</summary>
          <ul class="plain-list">{op.same_line.map((name) => <li key={name}><OpLink name={name} /></li>)}</ul>
        </details>
      )}
    </Card>
  );
}
