// The parts of a JSON schema as types of TypeScript.

export const pascal = (name) => name.replace(/(^|[^A-Za-z]+)(\w)/g, (_, _mark, letter) => letter.toUpperCase());
const member = (name) => (/^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name));

function type(schema, indent) {
  if (schema.$ref) return pascal(schema.$ref.split("/").at(-1));
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.anyOf) return [...new Set(schema.anyOf.map((part) => type(part, indent)))].join(" | ");
  if (Array.isArray(schema.type)) return schema.type.map((name) => type({ ...schema, type: name }, indent)).join(" | ");
  if (schema.type === "array") return `readonly (${type(schema.items ?? {}, indent)})[]`;
  if (schema.type === "object") return schema.properties ? object(schema, indent) : `Record<string, ${schema.additionalProperties?.type ?? schema.additionalProperties?.$ref ? type(schema.additionalProperties, indent) : "unknown"}>`;
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

export function declaration(name, schema) {
  const note = schema.description ? `// ${schema.description}\n` : "";
  return schema.type === "object" && schema.properties
    ? `${note}export interface ${name} ${object(schema, "")}\n`
    : `${note}export type ${name} = ${type(schema, "")};\n`;
}
