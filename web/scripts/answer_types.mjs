// Makes src/answers.ts, the documents of the verbs that the page shows, from docs/json/: `npm run types`.
import { readFileSync, writeFileSync } from "node:fs";
import { declaration, pascal } from "./types.mjs";

const [, , directory = "../docs/json", target = "src/answers.ts"] = process.argv;
const VERBS = { "first-bad": "FirstBad", compare: "Comparison", stomp: "StompReport" };
const SHARED = ["number", "problems", "warnings", "error", "code", "finding_tensor", "finding"];

const read = (name) => JSON.parse(readFileSync(`${directory}/${name}.schema.json`, "utf8"));
const common = read("common").$defs;

// The names of the verb's own parts begin with the verb's: `tensor` of compare is CompareTensor.
function withOwnNames(value, verb) {
  if (Array.isArray(value)) return value.map((entry) => withOwnNames(entry, verb));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, entry]) =>
    name === "$ref" ? [name, entry.replace("#/$defs/", entry.startsWith("#") ? `#/$defs/${verb}_` : "#/$defs/")] : [name, withOwnNames(entry, verb)]));
}

const shared = SHARED.map((name) => declaration(pascal(name), common[name]));
const answers = Object.entries(VERBS).flatMap(([verb, name]) => {
  const schema = withOwnNames(read(verb), verb);
  const answer = { ...schema, required: [...schema.required, ...(schema.anyOf?.[0].required ?? [])] };
  const own = Object.entries(schema.$defs ?? {}).map(([part, of]) => declaration(pascal(`${verb}_${part}`), of));
  return [...own, declaration(name, answer)];
});
const text = [...shared, ...answers].join("\n");
writeFileSync(target, `// Made from docs/json/ by scripts/answer_types.mjs; a change here is lost.\n\n${text}`);
