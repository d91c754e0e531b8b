// The token of the server: from the printed address, this tab's storage, or another open tab. It leaves the address at once, so that
// it reaches neither a link, a bookmark nor the history.
const KEY = "sonde-token";
const CHANNEL = "sonde-token";
const ANSWER_MS = 300;

// "#token=abc" or "#/op?s=2&token=abc": the token, and the fragment without it.
export function splitToken(fragment: string): { token: string; rest: string } {
  const found = /(^#?|[?&])token=([^&]*)/.exec(fragment);
  if (!found) return { token: "", rest: fragment };
  const rest = fragment.replace(found[0], found[1] === "&" ? "" : (found[1] ?? "")).replace(/\?&/, "?").replace(/[?#&]$/, "").replace(/^#?&/, "#");
  return { token: decodeURIComponent(found[2] ?? ""), rest };
}

export async function findToken(): Promise<string> {
  const { token, rest } = splitToken(location.hash);
  if (token) {
    history.replaceState(null, "", `${location.pathname}${location.search}${rest}`);
    keepToken(token);
    return token;
  }
  return sessionStorage.getItem(storageKey()) ?? (await askOtherTabs());
}

export function keepToken(token: string): void {
  sessionStorage.setItem(storageKey(), token);
}

export function answerOtherTabs(token: string): void {
  const channel = new BroadcastChannel(CHANNEL + location.pathname);
  channel.onmessage = ({ data }) => {
    if (data === "ask") channel.postMessage({ token });
  };
}

function storageKey(): string {
  return KEY + location.pathname;
}

function askOtherTabs(): Promise<string> {
  const channel = new BroadcastChannel(CHANNEL + location.pathname);
  return new Promise((resolve) => {
    const end = (token: string): void => {
      channel.close();
      if (token) keepToken(token);
      resolve(token);
    };
    const timer = setTimeout(() => end(""), ANSWER_MS);
    channel.onmessage = ({ data }: MessageEvent<{ token?: string } | "ask">) => {
      if (typeof data === "object" && data.token) {
        clearTimeout(timer);
        end(data.token);
      }
    };
    channel.postMessage("ask");
  });
}
