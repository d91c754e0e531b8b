// Lines of a program, one of them marked.
import { pythonTokens } from "../python.ts";
import type { Code } from "../api.ts";
import { words } from "../words.ts";
import { lineOf } from "./ui.tsx";

export function CodeLines({ lines, marked }: { lines: Code["lines"]; marked: number }) {
  if (!lines.length) return null;
  const indents = lines.filter(({ text }) => text.trim()).map(({ text }) => text.length - text.trimStart().length);
  const indent = indents.length ? Math.min(...indents) : 0; // what all lines share only pushes them out of sight
  return (
    <pre class="code" tabIndex={0}>
      {lines.map(({ number, text }) => (
        <div key={number} class={number === marked ? "marked" : ""} aria-current={number === marked ? "true" : undefined}>
          <span class="number">{number}</span>
          <CodeText text={text.slice(indent)} />
        </div>
      ))}
    </pre>
  );
}

// Of a line in a library: the line of the program itself that led there.
export function CalledFrom({ of }: { of: Code }) {
  if (!of.called_from) return null;
  const { source_file: file, source_line: line, function: name } = of.called_from;
  return <p class="soft">{words.op.calledFrom} <span class="where" title={file}>{lineOf(file, line)}</span> {name}</p>;
}

export function CodeText({ text }: { text: string }) {
  return (
    <code>
      {pythonTokens(text).map((token, i) => (
        <span key={i} class={`py-${token.kind}`}>
          {token.text}
        </span>
      ))}
    </code>
  );
}
