// Makes src/api.ts, the types of the server's answers, from openapi.json: `npm run types`.
import { readFileSync, writeFileSync } from "node:fs";
import { declaration, pascal } from "./types.mjs";

const [, , source = "../src/face/server/openapi.json", target = "src/api.ts"] = process.argv;
const api = JSON.parse(readFileSync(source, "utf8"));

// The rows of a table are in the schema of its path.
function rowTypes() {
  return Object.entries(api.paths).flatMap(([path, { get }]) => {
    const rows = get?.responses["200"].content["application/json"]?.schema.properties?.rows;
    if (!rows) return [];
    const kinds = rows.anyOf ?? [rows];
    const names = kinds.length === 1 ? ["Row"] : kinds.map((kind) => `${"to_node" in kind.items.properties ? "Edge" : "Node"}Row`);
    return kinds.map((kind, i) => [`${pascal(path.slice(1))}${names[i]}`, kind.items]);
  });
}

// Those of contract/ are in answers.ts.
const own = Object.entries(api.components.schemas).filter(([name]) => name === name.toLowerCase());
const schemas = [...own.map(([name, schema]) => [pascal(name), schema]), ...rowTypes()];
const text = schemas.map(([name, schema]) => declaration(name, schema)).join("\n");
writeFileSync(target, `// Made from openapi.json by scripts/api_types.mjs; a change here is lost.\nexport type * from "./answers.ts";\n\n${text}`);
