// A table of any length in an element of limited height. Browsers clip elements (Chromium at 33,554,428 px, Firefox earlier),
// so above this height positions of the scroll bar are scaled.
export const ROW_HEIGHT = 24;
export const MOST_HEIGHT = 15_000_000;
export const PAGE_ROWS = 200;
const MOST_ROWS = 60;

export interface Window {
  first: number; // the first row in the document
  count: number;
  top: number; // where the first row is, in px of the scrolled element
}

export function scrollHeight(rows: number): number {
  return Math.min(rows * ROW_HEIGHT, MOST_HEIGHT);
}

// The rows to show for a scroll position. Scaled or not, the ends of the bar show the first and the last row.
export function rowsAt(scrollTop: number, viewHeight: number, rows: number): Window {
  const height = scrollHeight(rows);
  const room = Math.max(0, height - viewHeight);
  const position = Math.min(Math.max(0, scrollTop), room);
  const firstVisible = room === 0 ? 0 : (position / room) * Math.max(0, rows - viewHeight / ROW_HEIGHT);
  const visible = Math.ceil(viewHeight / ROW_HEIGHT) + 1;
  const spare = Math.max(0, Math.floor((MOST_ROWS - visible) / 2));
  const first = Math.max(0, Math.floor(firstVisible) - Math.min(spare, 8));
  const count = Math.min(rows - first, Math.min(MOST_ROWS, visible + 16));
  return { first, count, top: position - (firstVisible - first) * ROW_HEIGHT };
}

// The scroll position that shows `row`, moved as little as possible.
export function positionOf(row: number, scrollTop: number, viewHeight: number, rows: number): number {
  const height = scrollHeight(rows);
  const room = Math.max(0, height - viewHeight);
  const rowRoom = Math.max(0, rows - viewHeight / ROW_HEIGHT);
  if (room === 0 || rowRoom === 0) return 0;
  const firstVisible = (Math.min(scrollTop, room) / room) * rowRoom;
  const fit = viewHeight / ROW_HEIGHT;
  let wanted = firstVisible;
  if (row < firstVisible) wanted = row;
  else if (row + 1 > firstVisible + fit) wanted = row + 1 - fit;
  else return scrollTop;
  return (Math.min(wanted, rowRoom) / rowRoom) * room;
}
