// A call that several ranks make together: their group, and the same call on the others.
import type { Op } from "../api.ts";
import { OpLink } from "../parts/op_name.tsx";
import { Card } from "../parts/ui.tsx";
import { hasOp, linkTo, ranks } from "../state.ts";
import { words } from "../words.ts";

type Collective = NonNullable<Op["collective"]>;

// "1" of "1 of run7".
const numberOf = (rank: string): number => Number.parseInt(rank, 10);

export function CollectiveCard({ op }: { op: Op }) {
  const { collective: of } = op;
  if (!of) return null;
  return (
    <Card class="collective" title={words.collective.title}>
      <Ranks of={of} op={op} />
      <dl class="facts">{factsOf(of).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      {of.calls.length === 0 && <p class="soft">{of.peer === undefined ? words.collective.alone : words.collective.passed}</p>}
    </Card>
  );
}

function factsOf(of: Collective): [string, string][] {
  const facts: [string, string][] = [];
  if (of.group) facts.push([words.collective.group, of.group]);
  if (of.reduce) facts.push([words.collective.reduce, of.reduce]);
  if (of.peer !== undefined) facts.push([words.collective.peer, String(of.peer)]);
  if (of.root !== undefined) facts.push([words.collective.root, String(of.root)]);
  if (of.call_number !== undefined) facts.push([words.collective.number, String(of.call_number)]);
  if (of.caller) facts.push([words.collective.caller, of.caller]);
  return facts;
}

// All ranks of the group, the shown one marked; a rank whose call the dump has leads to it.
function Ranks({ of, op }: { of: Collective; op: Op }) {
  const own = numberOf(op.rank);
  const calls = new Map(of.calls.map((call) => [numberOf(call.rank), call]));
  const all = of.ranks.length ? of.ranks : [own, ...calls.keys()].sort((a, b) => a - b);
  return (
    <ul class="rank-chips" aria-label={words.collective.ranks}>
      {all.map((rank) => {
        const call = calls.get(rank);
        if (rank === own) return <li key={rank} class="own"><strong>{words.overview.rank(String(rank))}</strong></li>;
        if (!call || !hasOp(call.op_name, { r: call.rank, s: call.step })) return <li key={rank} class="soft" title={call ? words.report.absent(call.op_name) : words.collective.noCall}>{words.overview.rank(String(rank))}{!call && ranks.value.some((name) => numberOf(name) === rank) ? " ?" : ""}</li>;
        return (
          <li key={rank}>
            <a href={linkTo("op", { r: call.rank, s: call.step, op: call.op_name, t: undefined })}>{words.overview.rank(String(rank))}</a>
            {(call.op_name !== op.op_name || call.step !== op.step) && <> <OpLink name={call.op_name} patch={{ r: call.rank, s: call.step }} scope={false} /></>}
          </li>
        );
      })}
    </ul>
  );
}
