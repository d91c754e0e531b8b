// The graph as a tree, by the pattern of WAI-ARIA: the same selection and the same open scopes as the picture.
import { useRef, useState } from "preact/hooks";
import type { Class } from "../api.ts";
import type { GraphModel, Item } from "../graph/model.ts";
import { shortName } from "../names.ts";
import { ClassMark } from "../parts/ui.tsx";
import { words } from "../words.ts";

interface TreeProps {
  model: GraphModel;
  open: readonly string[];
  chosen: string;
  onToggle: (key: string, all: boolean) => void;
  onSelect: (key: string) => void;
}

export function GraphTree({ model, open, chosen, onToggle, onSelect }: TreeProps) {
  const root = useRef<HTMLUListElement>(null);
  const [focused, setFocused] = useState(chosen);
  const opened = new Set(open);
  const rows = visible(model.root, opened);
  const first = rows.some((item) => item.key === focused) ? focused : (rows[0]?.key ?? "");
  const focus = (item: Item | undefined): void => {
    if (!item) return;
    setFocused(item.key);
    requestAnimationFrame(() => root.current?.querySelector<HTMLElement>(`[data-key="${CSS.escape(item.key)}"]`)?.focus());
    if (item.op) onSelect(item.key);
  };
  const key = (event: KeyboardEvent): void => {
    const at = rows.findIndex((item) => item.key === first);
    const item = rows[at];
    if (!item) return;
    const isOpen = opened.has(item.key);
    if (event.key === "ArrowDown" || event.key === "j") focus(rows[at + 1]);
    else if (event.key === "ArrowUp" || event.key === "k") focus(rows[at - 1]);
    else if (event.key === "Home") focus(rows[0]);
    else if (event.key === "End") focus(rows.at(-1));
    else if (event.key === "ArrowRight" && !item.op) isOpen ? focus(rows[at + 1]) : onToggle(item.key, false);
    else if (event.key === "ArrowLeft") isOpen && !item.op ? onToggle(item.key, false) : focus(item.parent?.key ? item.parent : undefined);
    else if (event.key === "Enter" && !item.op) onToggle(item.key, event.shiftKey);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const show = (item: Item, level: number) => (
    <li
      key={item.key} role="treeitem" data-key={item.key} aria-level={level} aria-selected={item.key === chosen} tabIndex={item.key === first ? 0 : -1}
      aria-expanded={item.op ? undefined : opened.has(item.key)}
    >
      <span onClick={(event) => { event.stopPropagation(); setFocused(item.key); item.op ? onSelect(item.key) : onToggle(item.key, event.shiftKey); }}>
        <ClassMark state={item.state as Class} /> {item.kind === "lane" ? (words.graph.lanes[item.label as keyof typeof words.graph.lanes] ?? item.label) : shortName(item.label)}
        {!item.op && <small class="soft">{words.graph.ops(item.ops)}</small>}
      </span>
      {!item.op && opened.has(item.key) && <ul role="group">{item.children.map((child) => show(child, level + 1))}</ul>}
    </li>
  );
  return (
    <div class="page tree-page">
      <ul class="tree" role="tree" aria-label={words.graph.tree} ref={root} onKeyDown={key}>{model.root.children.map((item) => show(item, 1))}</ul>
    </div>
  );
}

function visible(item: Item, opened: ReadonlySet<string>): Item[] {
  return item.children.flatMap((child) => [child, ...(child.op || !opened.has(child.key) ? [] : visible(child, opened))]);
}
