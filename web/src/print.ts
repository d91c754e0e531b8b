// What the page is on paper, which has no scroll bars and no arrows to open.
import { signal } from "@preact/signals";

export const isPrinted = signal(false);
export const PAPER = 690; // px: what a sheet of A4 holds beside its margins

let opened: HTMLDetailsElement[] = [];

addEventListener("beforeprint", () => {
  isPrinted.value = true;
  opened = [...document.querySelectorAll<HTMLDetailsElement>("main details:not([open])")];
  for (const details of opened) details.open = true;
});
addEventListener("afterprint", () => {
  isPrinted.value = false;
  for (const details of opened) details.open = false;
  opened = [];
});
