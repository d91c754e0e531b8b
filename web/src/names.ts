// Names as they are shown. A program may make names of any length: the link, the title and the commands have all of it.
const MOST_LETTERS = 48;
const LETTERS_AT_END = 16;

// A long name loses its middle.
export const shortName = (name: string): string =>
  name.length > MOST_LETTERS ? `${name.slice(0, MOST_LETTERS - LETTERS_AT_END - 1)}…${name.slice(-LETTERS_AT_END)}` : name;
