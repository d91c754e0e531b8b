// The program's files, with the operators of each line in the margin.
import type { Code, FirstBad } from "../answers.ts";
import type { SourceFile, SourceFiles } from "../api.ts";
import { command } from "../commands.ts";
import { CodeText } from "../parts/code.tsx";
import { Await, baseName, Card, ClassMark, Command, Empty, WORSE } from "../parts/ui.tsx";
import { dump, linkTo, overview, params, rank, useJson } from "../state.ts";
import { words } from "../words.ts";

export function Source() {
  const where = { dump: dump.value || undefined, rank: rank.value };
  const files = useJson<SourceFiles>("source", where);
  const chosen = params.value.file ?? files.value?.files.find((entry) => entry.source_file === code()?.source_file)?.source_file ?? files.value?.files[0]?.source_file;
  const file = useJson<SourceFile>(chosen ? "source" : null, { ...where, file: chosen });
  return (
    <div class="page">
      <h1 class="hidden">{words.source.title}</h1>
      <div class="two-columns">
        <Card title={words.source.files}>
          <Await of={files}>
            {(value) => (
              <>
                {!value.files.length && <Empty>{words.op.noSource}</Empty>}
                <ul class="plain-list">
                  {value.files.map((entry) => (
                    <li key={entry.source_file}>
                      <ClassMark state={entry.class} />{" "}
                      <a href={linkTo("source", { file: entry.source_file })} title={entry.source_file} aria-current={entry.source_file === chosen ? "true" : undefined}>
                        {baseName(entry.source_file)}
                      </a>{" "}
                      <span class="soft">{words.source.ops(entry.ops)}</span>
                    </li>
                  ))}
                </ul>
              </>
            )}
          </Await>
          <Command text={command("ls", ["--ops"], null)} />
        </Card>
        {chosen && (
          <Card title={baseName(chosen)} hint={chosen}>
            <Await of={file}>
              {(value) => {
                const most = worst(value);
                return (
                  <>
                    {!value.has_text && <Empty>{words.source.noText}</Empty>}
                    <div class="source-lines" tabIndex={0} role="region" aria-label={baseName(chosen)}>
                      {value.lines.map((line) => (
                        <div key={line.number} class={`source-line${line.ops ? " has" : ""}${isFinding(value, line.number) ? " marked" : ""}`} ref={line === most ? show : null}>
                          <span>{line.ops > 0 && <ClassMark state={line.class} />}</span>
                          <span class="right soft">{line.number}</span>
                          <span class="right">
                            {line.ops > 0 && (
                              <a href={linkTo("ops", { f: `source:${baseName(chosen)}:${line.number}`, all: 1, op: undefined })} title={words.source.show}>{line.ops}</a>
                            )}
                          </span>
                          <CodeText text={line.text} />
                        </div>
                      ))}
                    </div>
                  </>
                );
              }}
            </Await>
          </Card>
        )}
      </div>
    </div>
  );
}

const code = (): Code | null | undefined => (overview.value?.finding as unknown as FirstBad | null)?.first?.code;

function isFinding(file: SourceFile, line: number): boolean {
  const found = code();
  return found?.source_file === file.source_file && found.source_line === line;
}

// The line that a person came for: that of the finding, else the first one of the worst class.
function worst(file: SourceFile): SourceFile["lines"][number] | undefined {
  const found = file.lines.find((line) => isFinding(file, line.number));
  if (found) return found;
  const withOps = file.lines.filter((line) => line.ops > 0);
  const most = Math.max(...withOps.map((line) => WORSE[line.class]));
  return withOps.find((line) => WORSE[line.class] === most);
}

// Scrolls the screen alone: scrollIntoView would move the bar out of the window too.
function show(element: HTMLElement | null): void {
  const screen = element?.closest("main");
  if (element && screen) screen.scrollTop += element.getBoundingClientRect().top - screen.getBoundingClientRect().top - screen.clientHeight / 2;
}
