export function Source() { return null; }
