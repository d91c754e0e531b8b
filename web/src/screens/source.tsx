// The program's files, with the operators of each line in the margin.
import type { Code, Comparison, EarlierOp } from "../answers.ts";
import type { Class, SourceFile, SourceFiles } from "../api.ts";
import { command } from "../commands.ts";
import { CodeText } from "../parts/code.tsx";
import { Await, BAD, baseName, Card, ClassMark, Command, Empty, WORSE } from "../parts/ui.tsx";
import { dump, firstBad, linkTo, params, rank, shownDifference, useJson } from "../state.ts";
import { words } from "../words.ts";

export function Source() {
  const where = { dump: dump.value || undefined, rank: rank.value };
  const files = useJson<SourceFiles>("source", where);
  const chosen = params.value.file ?? files.value?.files.find((entry) => entry.source_file === found()?.source_file)?.source_file ?? files.value?.files[0]?.source_file;
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
                      <ClassMark state={entry.class} later={isLater(entry.class, entry.source_file)} />{" "}
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
                    {pointedLines().length > 0 && value.lines.some((line) => isLater(line.class, value.source_file, line.number)) && <p class="soft">{words.source.later}</p>}
                    <div class="source-lines" tabIndex={0} role="region" aria-label={baseName(chosen)}>
                      {value.lines.map((line) => (
                        <div key={line.number} class={`source-line${line.ops ? " has" : ""}${isFinding(value, line.number) ? " marked" : ""}`} ref={line === most ? show : null}>
                          <span>{line.ops > 0 && <ClassMark state={line.class} later={isLater(line.class, value.source_file, line.number)} />}</span>
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

type Line = Code | EarlierOp | Comparison["findings"][number];

// Of two dumps the first difference, else the first bad value.
const found = (): Line | null => shownDifference.value ?? firstBad.value?.first?.code ?? null;

function isFinding(file: SourceFile, line: number): boolean {
  const { source_file: name, source_line: number } = found() ?? {};
  return name === file.source_file && number === line;
}

// Where bad values began, on any rank, also before the step; nothing while nobody knows for sure.
function pointedLines(): Line[] {
  const { first, findings = [], by_rank: others = [], asides = [], expected = [] } = firstBad.value ?? {};
  return !first || first.tags.includes("uncertain") ? [] : [first, ...findings, ...others, ...asides, ...expected].flatMap(({ code, before = [] }) => [code, ...before]);
}

// Bad values that began in another line. Without a line: in another file.
function isLater(state: Class, file: string, line?: number): boolean {
  const begun = pointedLines();
  return BAD.includes(state) && begun.length > 0 && !begun.some((at) => at.source_file === file && (line === undefined || at.source_line === line));
}

// The line that a person came for: that of the finding, else the first one of the worst class.
function worst(file: SourceFile): SourceFile["lines"][number] | undefined {
  const marked = file.lines.find((line) => isFinding(file, line.number));
  if (marked) return marked;
  const withOps = file.lines.filter((line) => line.ops > 0);
  const most = Math.max(...withOps.map((line) => WORSE[line.class]));
  return withOps.find((line) => WORSE[line.class] === most);
}

// Scrolls the screen alone: scrollIntoView would move the bar out of the window too.
function show(element: HTMLElement | null): void {
  const screen = element?.closest("main");
  if (element && screen) screen.scrollTop += element.getBoundingClientRect().top - screen.getBoundingClientRect().top - screen.clientHeight / 2;
}
