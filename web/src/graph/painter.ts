// Draws a layout on a canvas. Boxes outside of the view are left out; far away there is no text.
import type { Box, Layout } from "./layout.ts";
import { lookOf } from "./looks.ts";
import type { Shades } from "./model.ts";
import { scopePath, type Strips } from "./strips.ts";

export interface Camera {
  x: number; // of the graph, at the left edge of the view
  y: number;
  scale: number;
}

export interface Scene {
  layout: Layout;
  camera: Camera;
  selected: string; // a key
  marked: ReadonlySet<string>; // boxes of a path
  ring?: string; // the box of the finding, or the closed one around it
  shades?: Shades | null; // instead of the classes
  strips: Strips;
  text: { ops: (count: number) => string; lane: (label: string) => string };
}

const TEXT_SCALE = 0.42;
const SMALLEST = 1.2;
const [RING, RING_GAP] = [3, 4]; // pixels of the screen

export class Painter {
  private colours = new Map<string, string>();
  private family = "sans-serif";

  constructor(private readonly canvas: HTMLCanvasElement) {}

  // Colours are those of the style sheet, which knows light and dark.
  readStyle(): void {
    this.colours.clear();
    this.family = getComputedStyle(this.canvas).fontFamily;
  }

  private colour(name: string): string {
    let colour = this.colours.get(name);
    if (colour === undefined) {
      colour = getComputedStyle(this.canvas).getPropertyValue(`--${name}`).trim();
      this.colours.set(name, colour);
    }
    return colour;
  }

  draw(scene: Scene): void {
    const { canvas } = this;
    const ratio = devicePixelRatio;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const draw = canvas.getContext("2d") as CanvasRenderingContext2D;
    const { camera, layout } = scene;
    draw.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw.fillStyle = this.colour("back");
    draw.fillRect(0, 0, width, height);
    draw.setTransform(ratio * camera.scale, 0, 0, ratio * camera.scale, -camera.x * camera.scale * ratio, -camera.y * camera.scale * ratio);
    const view = { left: camera.x, top: camera.y, right: camera.x + width / camera.scale, bottom: camera.y + height / camera.scale };
    const visible = layout.boxes.filter((box) => box.x < view.right && box.x + box.width > view.left && box.y < view.bottom && box.y + box.height > view.top);
    for (const box of visible) if (box.open) this.box(draw, box, scene);
    this.lines(draw, scene, view);
    for (const box of visible) if (box.key === scene.ring) this.ring(draw, box, camera.scale); // what the box reads is written above it
    for (const box of visible) if (!box.open && box.width * camera.scale > SMALLEST) this.box(draw, box, scene);
  }

  private ring(draw: CanvasRenderingContext2D, { x, y, width, height }: Box, scale: number): void {
    const [wide, gap] = [RING / Math.min(scale, 1), RING_GAP / Math.min(scale, 1)];
    draw.beginPath();
    draw.roundRect(x - gap, y - gap, width + 2 * gap, height + 2 * gap, 9);
    draw.lineWidth = wide;
    draw.strokeStyle = this.colour("nan-strong");
    draw.stroke();
  }

  private lines(draw: CanvasRenderingContext2D, { layout, camera, selected, marked }: Scene, view: { left: number; top: number; right: number; bottom: number }): void {
    if (camera.scale < 0.08) return;
    const plain = new Path2D();
    const strong = new Path2D();
    for (const line of layout.lines) {
      const { points } = line;
      const [x0, y0] = [points[0] ?? 0, points[1] ?? 0];
      const [x1, y1] = [points.at(-2) ?? 0, points.at(-1) ?? 0];
      if (Math.max(y0, y1) < view.top || Math.min(y0, y1) > view.bottom || Math.max(x0, x1) < view.left - 200 || Math.min(x0, x1) > view.right + 200) continue;
      const on = line.from === selected || line.to === selected || (marked.has(line.from) && marked.has(line.to));
      curve(on ? strong : plain, points);
      if (camera.scale > 0.3) arrow(on ? strong : plain, points);
    }
    draw.lineWidth = 1.2 / Math.max(camera.scale, 0.5);
    draw.strokeStyle = this.colour("edge");
    draw.stroke(plain);
    draw.lineWidth = 2.2 / Math.max(camera.scale, 0.5);
    draw.strokeStyle = this.colour("accent");
    draw.stroke(strong);
  }

  private box(draw: CanvasRenderingContext2D, box: Box, scene: Scene): void {
    const { camera, selected, marked } = scene;
    const { x, y, width, height } = box;
    const chosen = box.key === selected || (!box.open && box.pins.some(({ key }) => key !== "" && key === selected));
    const far = camera.scale < TEXT_SCALE;
    draw.fillStyle = box.open ? this.colour(box.depth % 2 ? "back" : "panel") : this.paint(lookOf(stateOf(box, scene)).fill);
    draw.beginPath();
    if (far) draw.rect(x, y, width, height);
    else draw.roundRect(x, y, width, height, box.kind === "op" ? 6 : 9);
    draw.fill();
    if (box.kind === "fold" && !box.open && !far) {
      draw.strokeStyle = this.colour("edge");
      draw.strokeRect(x + 4, y - 3, width - 8, 1);
    }
    draw.lineWidth = (chosen ? 3 : marked.has(box.key) && !box.open ? 2 : 1) / Math.max(camera.scale, 0.4);
    draw.strokeStyle = this.colour(chosen || (marked.has(box.key) && !box.open) ? "accent" : "edge");
    draw.stroke();
    if (far && !(box.open && box.height * camera.scale > 60)) return;
    this.label(draw, box, scene);
  }

  // "--nan" is a colour of the style sheet.
  private paint(colour: string): string {
    return colour.startsWith("--") ? this.colour(colour.slice(2)) : colour;
  }

  private label(draw: CanvasRenderingContext2D, box: Box, scene: Scene): void {
    const { camera, text } = scene;
    const { x, y, width, height } = box;
    const look = lookOf(stateOf(box, scene));
    const ink = box.open ? this.colour("ink") : this.paint(look.ink);
    const size = box.open ? Math.min(13 / Math.min(camera.scale, 1), 40) : 12.5;
    draw.font = `${box.open || box.kind !== "op" ? 600 : 400} ${size}px ${this.family}`;
    draw.fillStyle = ink;
    draw.textBaseline = "middle";
    draw.textAlign = "left";
    const title = box.kind === "lane" ? text.lane(box.label) : box.label;
    if (box.open) {
      draw.fillText(`− ${title}`, x + 10, y + 8 + size / 2);
      return;
    }
    if (box.kind === "op") {
      this.pins(draw, box, scene);
      draw.fillText(title, x + 10, y + height / 2 + 0.5);
    } else {
      draw.fillText(`+ ${title}`, x + 10, y + 13);
      draw.font = `400 11px ${this.family}`;
      draw.globalAlpha = 0.8;
      draw.fillText(text.ops(box.ops), x + 10, y + 28);
      draw.globalAlpha = 1;
      this.strip(draw, box, scene);
    }
    if (look.sign) {
      draw.textAlign = "center";
      draw.font = `700 12px ${this.family}`;
      draw.fillStyle = this.paint(look.signInk);
      draw.fillText(look.sign, x + width - 13, y + 13);
    }
  }

  // What an operator reads without a line, above its left corner.
  private pins(draw: CanvasRenderingContext2D, { x, y, width, pins, depth }: Box, { selected }: Scene): void {
    if (!pins.length) return;
    draw.save();
    draw.beginPath();
    draw.rect(x, y - 12, width, 12);
    draw.clip();
    draw.font = `400 9.5px ${this.family}`;
    draw.fillStyle = this.colour(pins.some(({ key }) => key !== "" && key === selected) ? "accent" : "ink-soft");
    const text = this.fitting(draw, `◆ ${pins.map(({ label }) => label).join(", ")}`, width - 4);
    const ink = draw.fillStyle;
    draw.fillStyle = this.colour(depth % 2 ? "panel" : "back"); // a line may pass below
    draw.fillRect(x + 1, y - 11, draw.measureText(text).width + 2, 10);
    draw.fillStyle = ink;
    draw.fillText(text, x + 2, y - 5);
    draw.restore();
  }

  // What has no room loses its end, and says so.
  private fitting(draw: CanvasRenderingContext2D, text: string, width: number): string {
    if (draw.measureText(text).width <= width) return text;
    let [fits, over] = [0, text.length];
    while (over - fits > 1) {
      const middle = (fits + over) >> 1;
      if (draw.measureText(`${text.slice(0, middle)}…`).width <= width) fits = middle;
      else over = middle;
    }
    return `${text.slice(0, fits)}…`;
  }

  // A cell for each member of a fold, or for each step of a scope.
  private strip(draw: CanvasRenderingContext2D, box: Box, scene: Scene): void {
    const cells = box.kind === "fold" ? (scene.shades?.get(box.key)?.cells ?? box.cells) : (scene.strips.get(scopePath(box.key)) ?? []);
    if (!cells.length) return;
    const cell = (box.width - 20) / cells.length;
    cells.forEach((state, i) => {
      draw.fillStyle = this.paint(lookOf(state).cell) || this.colour("line");
      draw.fillRect(box.x + 10 + i * cell, box.y + box.height - 9, Math.max(0.5, cell - (cell > 3 ? 1 : 0)), 5);
    });
  }
}

function stateOf(box: Box, { shades }: Scene): string {
  return shades ? (shades.get(box.key)?.state ?? "") : box.state;
}

function curve(path: Path2D, points: readonly number[]): void {
  path.moveTo(points[0] ?? 0, points[1] ?? 0);
  for (let i = 2; i + 3 < points.length; i += 2) {
    const [x, y, nextX, nextY] = [points[i]!, points[i + 1]!, points[i + 2]!, points[i + 3]!];
    path.quadraticCurveTo(x, y, (x + nextX) / 2, (y + nextY) / 2);
  }
  path.lineTo(points.at(-2) ?? 0, points.at(-1) ?? 0);
}

function arrow(path: Path2D, points: readonly number[]): void {
  const [x, y] = [points.at(-2) ?? 0, points.at(-1) ?? 0];
  const angle = Math.atan2(y - (points.at(-3) ?? 0), x - (points.at(-4) ?? 0));
  for (const side of [-0.5, 0.5]) {
    path.moveTo(x, y);
    path.lineTo(x - 6 * Math.cos(angle + side), y - 6 * Math.sin(angle + side));
  }
}

// The innermost box below a point of the graph.
export function boxAt(layout: Layout, x: number, y: number): Box | null {
  let found: Box | null = null;
  for (const box of layout.boxes) {
    if (x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height && (!found || box.depth >= found.depth)) found = box;
  }
  return found;
}

export function fit(layout: Layout, width: number, height: number): Camera {
  const scale = Math.min(1, (width - 40) / Math.max(1, layout.width), (height - 80) / Math.max(1, layout.height));
  return { scale, x: layout.width / 2 - width / 2 / scale, y: layout.height / 2 - (height + 30) / 2 / scale };
}
