// The keyboard: single keys, none with Ctrl, none while a person types. A screen adds its own while it is shown.
import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";

export type Actions = Readonly<Record<string, () => void>>;

const OFF = "sonde-keys-off";
const SEQUENCE_MS = 1000;
export const keysOff = signal(localStorage.getItem(OFF) === "1");
const layers: Actions[] = [];
let first = "";
let firstAt = 0;

export function setKeysOff(off: boolean): void {
  keysOff.value = off;
  localStorage.setItem(OFF, off ? "1" : "0");
}

// The keys are known before the screen is seen, so that no key is lost.
export function useKeys(actions: Actions): void {
  useLayoutEffect(() => {
    layers.push(actions);
    return () => {
      layers.splice(layers.indexOf(actions), 1);
    };
  });
}

export function onKey(event: KeyboardEvent): void {
  if (keysOff.value || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (document.querySelector("dialog[open]")) return; // its keys are its own, also when nothing in it has the focus
  const target = event.target as HTMLElement;
  if (target.closest("input, textarea, select, [contenteditable]")) return;
  if ((event.key === "Enter" || event.key === " ") && target.closest("button, a, summary")) return;
  const key = event.timeStamp - firstAt < SEQUENCE_MS && first ? `${first} ${event.key}` : event.key;
  first = "";
  const action = [...layers].reverse().find((layer) => layer[key])?.[key];
  if (action) {
    event.preventDefault();
    action();
  } else if (event.key === "g") {
    first = "g";
    firstAt = event.timeStamp;
  }
}
