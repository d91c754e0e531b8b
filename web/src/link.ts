// The state of the page is the fragment of its address: #/op?s=2&op=Default/net/log-op0&t=o0
// Names, not numbers of a database, so a link outlives an index. What is default is left out.
export const SCREENS = ["overview", "ops", "op", "graph", "compare", "watch", "source", "jobs"] as const;
export type Screen = (typeof SCREENS)[number];

export interface Route {
  screen: Screen;
  query: Readonly<Record<string, string>>;
  unknown?: string; // the name of a screen that there is not
}

// The order of the names in an address, so that equal states have equal addresses.
const ORDER = ["d", "r", "g", "s", "rq", "op", "t", "tab", "at", "f", "sort", "q"];
// Without r, g and s the page shows those of the finding: rank 0 is a choice.
const DEFAULTS: Readonly<Record<string, string>> = { d: "0" };

export function formatLink({ screen, query }: Route): string {
  const names = Object.keys(query).filter((name) => query[name] !== "" && query[name] !== DEFAULTS[name]);
  names.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
  const parts = names.map((name) => `${encode(name)}=${encode(query[name] ?? "")}`);
  return `#/${screen}${parts.length ? `?${parts.join("&")}` : ""}`;
}

export function parseLink(fragment: string): Route {
  const [path = "", search = ""] = split(fragment.replace(/^#?\/?/, ""), "?");
  const screen = SCREENS.find((name) => name === path);
  const query: Record<string, string> = {};
  for (const part of search.split("&")) {
    const [name = "", value = ""] = split(part, "=");
    if (name) query[decode(name)] = decode(value);
  }
  return { screen: screen ?? "overview", query, ...(screen || !path ? {} : { unknown: decode(path) }) };
}

function rank(name: string): number {
  const place = ORDER.indexOf(name);
  return place < 0 ? ORDER.length : place;
}

function split(text: string, mark: string): string[] {
  const place = text.indexOf(mark);
  return place < 0 ? [text] : [text.slice(0, place), text.slice(place + 1)];
}

// Slashes, colons and commas of names and slices stay readable; a fragment may contain them.
function encode(text: string): string {
  return encodeURIComponent(text).replace(/%(2F|3A|2C|40)/g, (code) => decodeURIComponent(code));
}

// A damaged escape stays as it is.
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
