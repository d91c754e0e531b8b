// The norms of gradients over the steps: a row for each parameter, coloured by how far it is from the row's own median.
import type { Class, TensorsRow } from "../api.ts";
import { blueOrange, css, type Rgb } from "../colours.ts";
import { pythonGradients } from "../commands.ts";
import { formatNumber, type Num, toNumber } from "../numbers.ts";
import { Scale } from "../parts/heat.tsx";
import { Matrix } from "../parts/matrix.tsx";
import { Await, BAD, Command, Empty, SIGNS } from "../parts/ui.tsx";
import type { Table } from "../source/source.ts";
import { dump, formatSlot, go, graph, isLaterBad, keyOf, notice, place, rank, source, step, useData } from "../state.ts";
import { words } from "../words.ts";
import { arrange, columnNames, columnOf } from "./cells.ts";

const MOST_COLUMNS = 400;
const MOST_PARAMETERS = 60;
const DECADES = 2; // of the scale, on either side of the median

export function GradientMatrix() {
  const query = { dump: dump.value || undefined, rank: rank.value, graph: graph.value, w: MOST_COLUMNS, h: MOST_PARAMETERS };
  const table = useData(keyOf("gradients", query), (from, signal) => from.table("gradients", query, signal));
  return <Await of={table}>{(value) => <GradientPicture table={value} />}</Await>;
}

function medianOf(norms: readonly Num[]): number {
  const sizes = norms.map(toNumber).filter((norm) => Number.isFinite(norm) && norm > 0).sort((a, b) => a - b);
  return sizes[Math.floor((sizes.length - 1) / 2)] ?? NaN;
}

const isDark = (): boolean => matchMedia("(prefers-color-scheme: dark)").matches;
const shadeOf = (decades: number): Rgb => blueOrange((decades + DECADES) / (2 * DECADES), isDark());

function GradientPicture({ table }: { table: Table }) {
  const cells = arrange([table], "parameter", (_, i) => ({ norm: table.get("l2norm", i) as Num, state: String(table.get("class", i)) as Class }));
  if (!cells.rows.length) return <Empty>{words.overview.noGradients}</Empty>;
  const medians = cells.rows.map((_, row) => medianOf(cells.columns.map(({ number }) => cells.at(row, number)?.norm)));
  return (
    <>
      <Matrix
        label={words.overview.gradients}
        rows={cells.rows.map((name) => ({ name, title: name, opens: true }))}
        columns={columnNames(cells.columns)}
        marked={columnOf(cells.columns, step.value)}
        legend={<><Scale low={-DECADES} high={DECADES} colour={shadeOf} show={(decades) => formatNumber(10 ** decades)} /> {words.overview.times}</>}
        cell={(row, column) => {
          const found = cells.at(row, cells.columns[column]?.number ?? 0);
          if (!found) return null;
          if (BAD.includes(found.state)) {
            const { first } = cells.columns[column] ?? { first: 0 };
            return { colour: `--${found.state}`, sign: SIGNS[found.state], text: words.classes[found.state], dim: isLaterBad({ rank: rank.value, step: first, gradient: cells.rows[row] ?? "" }) };
          }
          if (found.norm === null) return { colour: "hatch", sign: "", text: words.states.notMeasured };
          const times = toNumber(found.norm) / (medians[row] ?? NaN);
          const colour = times > 0 ? css(shadeOf(Math.log10(times))) : "--zero";
          return { colour, sign: "", text: words.overview.gradientCell(formatNumber(found.norm), Number.isFinite(times) ? formatNumber(times, 3) : "") };
        }}
        onRow={(row) => go("ops", { f: `parameter:${cells.rows[row]}`, all: 1 })}
        onOpen={(row, column) => void openGradient(cells.rows[row] ?? "", cells.columns[column]?.first ?? 0)}
      />
      <Command text={pythonGradients()} />
    </>
  );
}

// The trend of the operator that makes the gradient; a row without a parameter has the operator's name.
async function openGradient(name: string, of: number): Promise<void> {
  const open = (op: string, slot: number): void => go("op", { op, t: formatSlot({ side: "output", slot }), s: of, tab: "trend" });
  if (name.startsWith("Gradients/")) return open(name, 0);
  try {
    const found = await source.value?.json<{ rows: readonly TensorsRow[] }>("tensors", { ...place.value, step: of, filter: `parameter:${name} side:output`, limit: 1 });
    const [row] = found?.rows ?? [];
    if (row) return open(row.op_name ?? "", row.slot ?? 0);
  } catch (error) {
    notice(error); // a report has the tables of some steps alone: the screen of the table says so
  }
  go("ops", { f: `parameter:${name}`, s: of });
}
