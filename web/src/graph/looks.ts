// The colour and the sign of a box: of a class, of a verdict of a comparison, of a size, of a type.
import type { Class } from "../api.ts";
import { css, viridis } from "../colours.ts";
import { SIGNS } from "../parts/ui.tsx";
import { HEATS } from "./model.ts";

export interface Look {
  fill: string; // a CSS colour, or "--nan" of the style sheet
  ink: string;
  sign: string;
  signInk: string;
  cell: string; // in the strip of a fold
}

export const HUES = 12;

const PLAIN: Look = { fill: "--panel", ink: "--ink", sign: "", signInk: "--ink", cell: "--line" };

const VERDICTS: Readonly<Record<string, Partial<Look>>> = {
  introduced: { fill: "--nan-soft", sign: "✕", signInk: "--nan-text", cell: "--nan" },
  unmatched: { fill: "--accent-soft", sign: "≠", signInk: "--accent", cell: "--accent" },
  propagated: { fill: "--infinity-soft", sign: "→", cell: "--infinity" },
  within_tolerance: { fill: "--unjudged_infinity-soft", sign: "≈", cell: "--unjudged_infinity" },
  all_differ: { fill: "--accent-soft", sign: "≠", signInk: "--accent", cell: "--accent" },
  identical: { sign: "=", cell: "--fine" },
  unknown: { sign: "?" },
  // How a tensor is made from golden ones.
  none: { fill: "--nan-soft", sign: "≠", signInk: "--nan-text", cell: "--nan" },
  same: { sign: "=", cell: "--fine" },
  permuted: { fill: "--unjudged_infinity-soft", sign: "⇄", cell: "--unjudged_infinity" },
  joined: { fill: "--accent-soft", sign: "+", signInk: "--accent", cell: "--accent" },
  cut: { fill: "--infinity-soft", sign: "÷", cell: "--infinity" },
  sum: { fill: "--accent-soft", sign: "Σ", signInk: "--accent", cell: "--accent" },
  constant: { sign: "1", cell: "--fine" },
};

const looks = new Map<string, Look>();

// "heat-3": the fourth of `HEATS` sizes; "hue-3": the fourth of `HUES` types; "rank-3": a rank; else a class or a verdict.
export function lookOf(state: string): Look {
  let look = looks.get(state);
  if (!look) {
    look = make(state);
    looks.set(state, look);
  }
  return look;
}

function make(state: string): Look {
  const [kind, number] = state.split("-");
  if (kind === "heat") {
    const share = Number(number) / (HEATS - 1);
    const fill = css(viridis(share));
    const ink = share < 0.55 ? "#ffffff" : "#1c1c1a";
    return { fill, ink, sign: "", signInk: ink, cell: fill };
  }
  if (kind === "hue") {
    const fill = `hsl(${(Number(number) * 360) / HUES} 60% 78%)`;
    return { fill, ink: "#1c1c1a", sign: "", signInk: "#1c1c1a", cell: fill };
  }
  if (kind === "rank") {
    const fill = `hsl(${(Number(number) * 137 + 20) % 360} 62% 76%)`;
    return { fill, ink: "#1c1c1a", sign: number ?? "", signInk: "#1c1c1a", cell: fill };
  }
  const verdict = VERDICTS[state];
  if (verdict) return { ...PLAIN, ...verdict };
  const plain = !state || state === "fine" || state === "not_recorded" || state === "not_measured";
  return {
    ...PLAIN,
    fill: plain ? "--panel" : `--${state}-soft`,
    sign: state === "fine" ? "" : (SIGNS[state as Class] ?? ""),
    signInk: state === "nan" ? "--nan-text" : "--ink",
    cell: state ? `--${state}` : "--line",
  };
}
