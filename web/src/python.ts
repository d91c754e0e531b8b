// Splits a line of Python into parts for colouring. Each line is looked at alone: the server quotes single lines.
export interface Token {
  kind: "keyword" | "text" | "number" | "comment" | "plain";
  text: string;
}

const KEYWORDS = new Set(
  ("False None True and as assert async await break case class continue def del elif else except finally for from global if " +
    "import in is lambda match nonlocal not or pass raise return try while with yield").split(" "),
);
const PARTS =
  /(?<comment>#.*)|(?<text>[rbfuRBFU]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?))|(?<word>[\p{L}_][\p{L}\p{N}_]*)|(?<number>\d[\d_.]*(?:[eE][+-]?\d+)?[jJ]?)|(?<other>[^]?)/uy;

export function pythonTokens(line: string): Token[] {
  const tokens: Token[] = [];
  PARTS.lastIndex = 0;
  while (PARTS.lastIndex < line.length) {
    const groups = PARTS.exec(line)?.groups;
    if (!groups) break;
    if (groups.comment) add(tokens, "comment", groups.comment);
    else if (groups.text) add(tokens, "text", groups.text);
    else if (groups.number) add(tokens, "number", groups.number);
    else if (groups.word) add(tokens, KEYWORDS.has(groups.word) ? "keyword" : "plain", groups.word);
    else add(tokens, "plain", groups.other ?? "");
  }
  return tokens;
}

function add(tokens: Token[], kind: Token["kind"], text: string): void {
  const last = tokens.at(-1);
  if (last && last.kind === kind && kind === "plain") last.text += text;
  else tokens.push({ kind, text });
}
