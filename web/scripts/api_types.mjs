// Makes src/api.ts, the types of the server's answers, from openapi.json: `npm run types`.
import { readFileSync, writeFileSync } from "node:fs";

const [, , source = "../src/server/openapi.json", target = "src/api.ts"] = process.argv;
const api = JSON.parse(readFileSync(source, "utf8"));

const pascal = (name) => name.replace(/(^|[^A-Za-z]+)(\w)/g, (_, _mark, letter) => letter.toUpperCase());
const member = (name) => (/^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name));

function type(schema, indent) {
  if (schema.$ref) return pascal(schema.$ref.split("/").at(-1));
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.anyOf) return [...new Set(schema.anyOf.map((part) => type(part, indent)))].join(" | ");
  if (Array.isArray(schema.type)) return schema.type.map((name) => type({ ...schema, type: name }, indent)).join(" | ");
  if (schema.type === "array") return `readonly (${type(schema.items ?? {}, indent)})[]`;
  if (schema.type === "object") return schema.properties ? object(schema, indent) : "Record<string, unknown>";
  return { integer: "number", number: "number", string: "string", boolean: "boolean", null: "null" }[schema.type] ?? "unknown";
}

function object({ properties, required = [] }, indent) {
  const inner = `${indent}  `;
  const lines = Object.entries(properties).map(([name, schema]) => {
    const mark = required.includes(name) ? "" : "?";
    const note = schema.description ? ` // ${schema.description}` : "";
    return `${inner}readonly ${member(name)}${mark}: ${type(schema, inner)};${note}`;
  });
  return `{\n${lines.join("\n")}\n${indent}}`;
}

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

const schemas = [...Object.entries(api.components.schemas).map(([name, schema]) => [pascal(name), schema]), ...rowTypes()];
const text = schemas
  .map(([name, schema]) => {
    const note = schema.description ? `// ${schema.description}\n` : "";
    return schema.type === "object" && schema.properties
      ? `${note}export interface ${name} ${object(schema, "")}\n`
      : `${note}export type ${name} = ${type(schema, "")};\n`;
  })
  .join("\n");
writeFileSync(target, `// Made from openapi.json by scripts/api_types.mjs; a change here is lost.\n\n${text}`);
