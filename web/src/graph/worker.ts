// The page's side of the layout worker.
import workerUrl from "./layout.worker.ts?worker&url";
import type { GraphAnswer, GraphRequest } from "./layout.worker.ts";

let address = workerUrl;

// A report contains the worker: its address is then that of a blob.
export function useWorker(blob: string): void {
  address = blob;
}

interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL: (url: string) => string }): { createScriptURL: (url: string) => unknown };
}

// The page's policy (Trusted Types) lets this one place make the address of a script.
const policy = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes?.createPolicy("sonde-worker", {
  createScriptURL: (url) => {
    if (url !== address) throw new TypeError(`'${url}' is not the layout worker`);
    return url;
  },
});

export class LayoutWorker {
  // Not a module: Chromium does not load a module from a blob of a file, as a report is.
  private readonly worker = new Worker((policy ? policy.createScriptURL(address) : address) as string);
  private last = 0;

  constructor(onAnswer: (answer: GraphAnswer) => void) {
    this.worker.onmessage = ({ data }: MessageEvent<GraphAnswer>) => {
      if (data.id === this.last) onAnswer(data); // older ones were overtaken
    };
  }

  ask(request: Omit<GraphRequest, "id">): void {
    this.last += 1;
    this.worker.postMessage({ id: this.last, ...request });
  }

  stop(): void {
    this.worker.terminate();
  }
}
