// The name of an operator: its own part first, its scope small.
import { shortName } from "../names.ts";
import { hasOp, linkTo, type Patch } from "../state.ts";
import { words } from "../words.ts";

export function splitName(name: string): { own: string; scope: string } {
  const at = name.lastIndexOf("/");
  return { own: name.slice(at + 1), scope: at < 0 ? "" : name.slice(0, at) };
}

// "network-Network/attention-Attention" as "network › attention": the attributes of the program.
export function shortScope(scope: string): string {
  return scope
    .split("/")
    .filter((part) => part !== "Default")
    .map((part) => shortName(part.replace(/-[^-]*$/, "") || part))
    .join(" › ");
}

export function OpLink({ name, patch = {}, scope = true }: { name: string; patch?: Patch; scope?: boolean }) {
  const { own, scope: path } = splitName(name);
  const content = <><span>{shortName(own)}</span>{scope && path && <small>{shortScope(path)}</small>}</>;
  if (!hasOp(name, patch)) return <span class="op-link absent" title={words.report.absent(name)}>{content}</span>;
  return (
    <a class="op-link" href={linkTo("op", { op: name, t: undefined, ...patch })} title={name}>
      {content}
    </a>
  );
}
