export function Watch() { return null; }
