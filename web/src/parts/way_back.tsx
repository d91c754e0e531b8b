// The button that leads to the path backwards, by the name of what it shows.
import type { Class } from "../api.ts";
import { linkTo, wayBack } from "../state.ts";
import { words } from "../words.ts";

export function WayBack({ state, name, step, small = false }: { state: Class; name: string; step: number; small?: boolean }) {
  const way = wayBack(state, name, step);
  if (!way) return null;
  return <a class={`button${small ? " small" : ""}`} href={linkTo("graph", { path: "cause" })}>{way === "cause" ? words.op.path : words.op.makers}</a>;
}
