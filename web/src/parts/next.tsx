// What to do next, with the command that does it, and the way through earlier steps: the same in every card.
import type { EarlierOp, NextCommand } from "../answers.ts";
import { words } from "../words.ts";
import { OpLink } from "./op_name.tsx";
import { Copy, lineOf } from "./ui.tsx";

export function NextCommands({ of }: { of: readonly NextCommand[] }) {
  if (!of.length) return null;
  return (
    <details class="next-commands">
      <summary>{words.overview.next}</summary>
      <ul class="plain-list">
        {of.map(({ kind, command }) => <li key={command}>{words.overview.purposes[kind]}: <code>{command}</code> <Copy text={command} small /></li>)}
      </ul>
    </details>
  );
}

// In the order of the run. `rank`: that of the answer.
export function Before({ of, rank }: { of: readonly EarlierOp[]; rank: string | undefined }) {
  return (
    <ol class="stations before">
      {of.map((one) => (
        <li key={`${one.step} ${one.op_name}`}>
          <span class="soft">{words.bar.step} {one.step}</span> <OpLink name={one.op_name} patch={{ s: one.step, g: one.graph, r: rank }} scope={false} />{" "}
          <span class="where">{lineOf(one.source_file, one.source_line)}</span>
        </li>
      ))}
    </ol>
  );
}
