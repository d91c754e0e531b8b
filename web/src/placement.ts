// How a tensor is part of a distributed one, as docs/format.md writes it: "Shard(0) of (16, 8) on tp=2, from (8, 0)".
export interface Placement {
  dimensions: readonly { mesh: string; placement: string }[]; // of the mesh: "tp=2" and "Shard(0)"
  shape: string; // of the whole tensor
  from: string; // where the part begins; empty: at its beginning, or it is no part along an axis
}

const FORM = /^(?<placements>.+?) of (?<shape>\([^)]*\)) on (?<mesh>.+?)(?:, from (?<from>\([^)]*\)))?$/;

// Null: another text.
export function parsePlacement(text: string): Placement | null {
  const { placements = "", shape = "", mesh = "", from = "" } = FORM.exec(text)?.groups ?? {};
  if (!shape) return null;
  const parts = placements.split(/, (?![^(]*\))/);
  const meshes = mesh.split(" × ");
  if (parts.length !== meshes.length) return null;
  return { dimensions: parts.map((placement, i) => ({ mesh: meshes[i] ?? "", placement })), shape, from };
}
