// The placement of a tensor: for each dimension of the mesh what its ranks have of the whole.
import { parsePlacement } from "../placement.ts";
import { words } from "../words.ts";

export function PlacementText({ of }: { of: string }) {
  const parsed = parsePlacement(of);
  if (!parsed) return <span class="placement">{words.op.placement} <code>{of}</code></span>;
  return (
    <span class="placement" title={of}>
      {words.op.placement}{" "}
      {parsed.dimensions.map(({ mesh, placement }) => <code key={mesh}><b>{mesh}</b> {placement}</code>)} {words.op.globalShape(parsed.shape)}{parsed.from && ` ${words.op.partFrom(parsed.from)}`}
    </span>
  );
}
