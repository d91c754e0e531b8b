// Starts the page's worker.
import workerUrl from "./page.worker.ts?worker&url";

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
    if (url !== address) throw new TypeError(`'${url}' is not the page's worker`);
    return url;
  },
});

// Not a module: Chromium does not load a module from a blob of a file, as a report is.
export const openWorker = (): Worker => new Worker((policy ? policy.createScriptURL(address) : address) as string);
