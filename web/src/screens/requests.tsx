// The requests of a serving engine: choose one, and the page has its steps alone.
import { inWords } from "../address.ts";
import { formatCount } from "../numbers.ts";
import { Card, Select } from "../parts/ui.tsx";
import { spanOf, type Worked } from "../requests.ts";
import { change, overview, rank, graph, request, requests, step } from "../state.ts";
import { words } from "../words.ts";

const MOST_LISTED = 200;

// The step stays, where the request has it.
const choose = (worked: Worked | undefined): void => change({ rq: worked?.request, s: worked && !worked.steps.includes(step.value) ? worked.steps[0] : step.value });

// In the bar.
export function RequestChoice() {
  if (!requests.value.length) return null;
  return (
    <Select label={words.requests.label} value={request.value?.request ?? ""} onChange={(name) => choose(requests.value.find((one) => one.request === name))}
      choices={[{ value: "", label: words.requests.all }, ...requests.value.map(({ request: name }) => ({ value: name, label: name }))]} />
  );
}

// Scrolls the table alone.
function showRow(row: HTMLElement | null): void {
  const list = row?.closest<HTMLElement>(".scroll-x");
  if (row && list) list.scrollTop = row.offsetTop - list.clientHeight / 2;
}

// On the overview: all of them, with the steps and the tokens.
export function Requests() {
  const all = requests.value;
  if (!all.length) return null;
  return (
    <Card class="requests" title={words.requests.title} hint={words.requests.hint}>
      <div class="scroll-x" tabIndex={0} role="region" aria-label={words.requests.title}>
        <table>
          <thead><tr>{[words.requests.label, words.requests.steps, words.requests.rows, words.requests.length].map((title) => <th key={title} scope="col">{title}</th>)}</tr></thead>
          <tbody>
            {all.slice(0, MOST_LISTED).map((one) => {
              const isChosen = one.request === request.value?.request;
              return (
                <tr key={one.request} class={isChosen ? "chosen" : ""} ref={isChosen ? showRow : null}>
                  <td><button type="button" class="plain link" aria-pressed={isChosen} onClick={() => choose(isChosen ? undefined : one)}>{one.request}</button></td>
                  <td>{inWords(one.steps.map(String))}</td><td class="right">{formatCount(one.rows)}</td><td class="right">{formatCount(one.end)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {all.length > MOST_LISTED && <p class="soft">{words.requests.more(formatCount(all.length - MOST_LISTED))}</p>}
    </Card>
  );
}

const range = ([first, last]: readonly [number, number]): string => (first === last ? String(first) : `${first}–${last}`);

// On the page of an operator: which rows of its batch belong to which request, and which tokens these are.
export function RequestRows() {
  const now = overview.value?.steps.find((one) => one.rank === rank.value && one.graph === graph.value && one.step === step.value);
  const rows = now?.requests ?? [];
  if (!rows.length) return null;
  const shown = request.value ? rows.filter((one) => one.request === request.value?.request) : rows;
  return (
    <Card class="request-rows" title={words.requests.ofStep(step.value)} hint={words.requests.rowsHint}>
      <ul class="plain-list">
        {shown.slice(0, MOST_LISTED).map((one) => <li key={`${one.request} ${one.row}`}><code>{one.request}</code> {words.requests.place(range(spanOf(one.row, one.rows)), range(spanOf(one.position, one.rows)))}</li>)}
      </ul>
    </Card>
  );
}
