// A layout on a canvas: zoom, pan, choose, open; by mouse, touch and keys.
import { useEffect, useRef, useState } from "preact/hooks";
import { useKeys } from "../keys.ts";
import { useSize } from "../parts/ui.tsx";
import { go } from "../state.ts";
import { words } from "../words.ts";
import type { GraphAnswer } from "./layout_answer.ts";
import type { Box, Layout } from "./layout.ts";
import type { Item, Shades } from "./model.ts";
import { boxAt, type Camera, fit, Painter } from "./painter.ts";
import type { Strips } from "./strips.ts";

const LEAST_SCALE = 0.02;
const MOST_SCALE = 2.5;
const NO_STRIPS: Strips = new Map();

// Two pictures that move together: each calls the other's function.
export class Cameras {
  private readonly views = new Set<(by: number, dx: number, dy: number) => void>();

  add(view: (by: number, dx: number, dy: number) => void): () => void {
    this.views.add(view);
    return () => void this.views.delete(view);
  }

  // Larger by a factor, and moved by pixels.
  move(from: (by: number, dx: number, dy: number) => void, by: number, dx: number, dy: number): void {
    for (const view of this.views) if (view !== from) view(by, dx, dy);
  }
}

export function GraphCanvas({ answer, chosen, marked, found, anchor, shades = null, strips = NO_STRIPS, label = words.graph.canvas, cameras, keys = true, onToggle, onClose, onSelect }: {
  answer: GraphAnswer | null; chosen: string; marked: ReadonlySet<string>; found?: Item | undefined; anchor: { current: string }; shades?: Shades | null; strips?: Strips; label?: string;
  cameras?: Cameras; keys?: boolean; // keys: of the screen, not of this picture alone
  onToggle: (key: string, all: boolean) => void; onClose?: (key: string) => void; onSelect: (key: string) => void;
}) {
  const [frame, size] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const camera = useRef<Camera | null>(null);
  const before = useRef<Box[]>([]);
  const [, redraw] = useState(0);
  const [cursor, setCursor] = useState("");
  const painter = useRef<Painter | null>(null);
  const layout = answer?.layout;
  const active = cursor || chosen;
  // The box of the finding, or the closed one around it.
  const ring = layout && ringOf(layout, found);

  // The box that was opened or closed keeps its place on the screen.
  useEffect(() => {
    if (!layout || !size.width) return;
    const [old, now] = [before.current, layout.boxes].map((boxes) => boxes.find((box) => box.key === anchor.current));
    if (old && now && camera.current) {
      camera.current = { ...camera.current, x: camera.current.x + now.x - old.x, y: camera.current.y + now.y - old.y };
    } else {
      camera.current = fit(layout, size.width, size.height);
      const box = layout.boxes.find((entry) => entry.key === chosen);
      if (camera.current.scale < 0.6) camera.current = within(layout, size, look(box ?? ring ?? layout.boxes.find((entry) => entry.state === "nan" && !entry.open) ?? layout.boxes[0], size));
    }
    before.current = layout.boxes;
    redraw((count) => count + 1);
  }, [layout, size.width > 0]);
  useEffect(() => {
    const box = layout?.boxes.find((entry) => entry.key === chosen);
    if (box && camera.current && !inView(box, camera.current, size)) {
      camera.current = look(box, size, camera.current.scale);
      redraw((count) => count + 1);
    }
  }, [chosen]);
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const changed = (): void => {
      painter.current?.readStyle();
      redraw((count) => count + 1);
    };
    scheme.addEventListener("change", changed);
    return () => scheme.removeEventListener("change", changed);
  }, []);
  useEffect(() => {
    if (!canvas.current || !layout || !camera.current) return;
    if (!painter.current) {
      painter.current = new Painter(canvas.current);
      painter.current.readStyle();
    }
    painter.current.draw({
      layout, camera: camera.current, selected: active, marked, ring: ring?.key ?? "", shades, strips,
      text: { ops: words.graph.ops, lane: (label) => words.graph.lanes[label as keyof typeof words.graph.lanes] ?? label },
    });
  });
  const zoom = (by: number, atX = size.width / 2, atY = size.height / 2): void => {
    const now = camera.current;
    if (!now) return;
    const scale = Math.min(MOST_SCALE, Math.max(LEAST_SCALE, now.scale * by));
    camera.current = { scale, x: now.x + atX / now.scale - atX / scale, y: now.y + atY / now.scale - atY / scale };
    redraw((count) => count + 1);
  };
  const pan = (dx: number, dy: number): void => {
    const now = camera.current;
    if (!now) return;
    camera.current = { ...now, x: now.x - dx / now.scale, y: now.y - dy / now.scale };
    redraw((count) => count + 1);
  };
  const follow = useRef((_by: number, _dx: number, _dy: number): void => undefined);
  follow.current = (by, dx, dy) => {
    if (by !== 1) zoom(by);
    pan(dx, dy);
  };
  const own = useRef((by: number, dx: number, dy: number): void => follow.current(by, dx, dy));
  useEffect(() => cameras?.add(own.current), [cameras]);
  const zoomBoth = (by: number, atX?: number, atY?: number): void => {
    zoom(by, atX, atY);
    cameras?.move(own.current, by, 0, 0);
  };
  const step = (arrow: string): void => {
    const next = layout && neighbour(layout.boxes, active, arrow);
    if (!next) return;
    setCursor(next.key);
    if (next.kind === "op") onSelect(next.key);
    if (camera.current && !inView(next, camera.current, size)) camera.current = look(next, size, camera.current.scale);
  };
  const showAll = (): void => {
    if (layout) camera.current = fit(layout, size.width, size.height);
    redraw((count) => count + 1);
  };
  const arrows = Object.fromEntries(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"].map((name) => [name, () => step(name)]));
  useKeys(keys ? { ...arrows, f: showAll, "+": () => zoomBoth(1.3), "=": () => zoomBoth(1.3), "-": () => zoomBoth(1 / 1.3) } : {});

  const under = (event: MouseEvent): Box | null => {
    const box = (canvas.current as HTMLCanvasElement).getBoundingClientRect();
    const now = camera.current;
    if (!layout || !now) return null;
    return boxAt(layout, now.x + (event.clientX - box.left) / now.scale, now.y + (event.clientY - box.top) / now.scale);
  };
  const drag = useRef<{ x: number; y: number; moved: boolean } | null>(null);
  const move = (event: PointerEvent): void => {
    const from = drag.current;
    if (!from || !camera.current) return;
    const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
    if (!from.moved && Math.hypot(dx, dy) < 4) return;
    drag.current = { x: event.clientX, y: event.clientY, moved: true };
    pan(dx, dy);
    cameras?.move(own.current, 1, dx, dy);
  };
  const key = (event: KeyboardEvent): void => {
    if (!layout) return;
    if (event.key.startsWith("Arrow")) step(event.key);
    else if (event.key === "Enter" && active) {
      if (layout.boxes.find((box) => box.key === active)?.kind === "op") go("op");
      else onToggle(active, event.shiftKey);
    } else if (event.key === "Backspace" && active && onClose) onClose(active);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="graph-view" ref={frame}>
      <canvas
        ref={canvas} tabIndex={0} role="application" data-found={ring && camera.current ? placeOf(ring, camera.current) : undefined} data-boxes={layout?.boxes.length} data-pins={layout?.boxes.reduce((sum, box) => sum + box.pins.length, 0)} aria-label={label} onKeyDown={key}
        onPointerDown={(event) => {
          drag.current = { x: event.clientX, y: event.clientY, moved: false };
          event.currentTarget.setPointerCapture(event.pointerId);
        }}
        onPointerMove={move}
        onPointerUp={(event) => {
          const moved = drag.current?.moved;
          drag.current = null;
          const box = moved ? null : under(event);
          if (!box) return;
          setCursor(box.key);
          onSelect(box.key);
        }}
        onDblClick={(event) => {
          const box = under(event);
          if (box?.kind === "op") go("op");
          else if (box) onToggle(box.key, event.shiftKey);
        }}
        onWheel={(event) => {
          event.preventDefault();
          const box = event.currentTarget.getBoundingClientRect();
          zoomBoth(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
        }}
      />
      <div class="graph-tools at-end">
        <button type="button" class="small" onClick={() => zoomBoth(1.3)} aria-label={words.graph.in}>+</button>
        <button type="button" class="small" onClick={() => zoomBoth(1 / 1.3)} aria-label={words.graph.out}>−</button>
        <button type="button" class="small" onClick={showAll}>{words.graph.fit}</button>
      </div>
    </div>
  );
}

function ringOf(layout: Layout, found: Item | undefined): Box | undefined {
  const boxes = new Map(layout.boxes.map((box) => [box.key, box]));
  for (let item = found ?? null; item?.key; item = item.parent) if (boxes.has(item.key)) return boxes.get(item.key);
  return undefined;
}

// A box on the screen: key, left, top, width, height.
const placeOf = ({ key, x, y, width, height }: Box, { x: left, y: top, scale }: Camera): string =>
  [key, ...[x - left, y - top, width, height].map((pixels) => Math.round(pixels * scale))].join(" ");

interface Size {
  width: number;
  height: number;
}

function look(box: Box | undefined, size: Size, scale = 0.9): Camera {
  if (!box) return { x: 0, y: 0, scale };
  const y = box.open ? box.y - 60 / scale : box.y + box.height / 2 - size.height / 2 / scale;
  return { scale, x: box.x + box.width / 2 - size.width / 2 / scale, y };
}

const MARGIN = 20;
const TOOLS = 56; // the height of what lies over the picture

// The picture begins and ends with the graph: half of an empty one would be shown for a box at its edge.
function within({ width, height }: Layout, size: Size, { x, y, scale }: Camera): Camera {
  const clamped = (at: number, before: number, after: number, length: number): number => Math.min(Math.max(at, -before / scale), Math.max(-before / scale, length + after / scale));
  return {
    scale,
    x: clamped(x, MARGIN, MARGIN - size.width, width),
    y: clamped(y, TOOLS, TOOLS - size.height, height),
  };
}

function inView(box: Box, { x, y, scale }: Camera, size: Size): boolean {
  return box.x >= x && box.y >= y && box.x + box.width <= x + size.width / scale && box.y + box.height <= y + size.height / scale;
}

// The nearest closed box in a direction.
function neighbour(boxes: readonly Box[], from: string, key: string): Box | undefined {
  const closed = boxes.filter((box) => !box.open);
  const now = boxes.find((box) => box.key === from);
  if (!now) return closed[0];
  const [dx, dy] = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[key] ?? [0, 0];
  const middle = (box: Box): [number, number] => [box.x + box.width / 2, box.y + box.height / 2];
  const [x, y] = middle(now);
  let best: Box | undefined;
  let least = Infinity;
  for (const box of closed) {
    const [bx, by] = middle(box);
    const along = (bx - x) * (dx ?? 0) + (by - y) * (dy ?? 0);
    if (along < 6 || box.key === from) continue;
    const across = Math.abs((bx - x) * (dy ?? 0)) + Math.abs((by - y) * (dx ?? 0));
    if (along + across * 2.5 < least) [best, least] = [box, along + across * 2.5];
  }
  return best;
}

