"""JSON schemas of the command's documents (docs/json/), and the schema of a type for openapi.json."""

from __future__ import annotations

import json
from typing import Any

from contract_language import ENVELOPE, ERROR, Contract, Member, Question, Type, inner, is_list, is_map
from contract_options import job_schema
from contract_tables import put_rows

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_COUNT = {"type": "integer", "minimum": 0}
_NULL = {"type": "null"}


class Schemas:
    """Schemas whose references to shared types begin with `shared`, and to types of their own with `own`."""

    def __init__(self, contract: Contract, shared: str, own: str = "#/$defs/") -> None:
        self.contract = contract
        self.shared_names = {one.name for one in contract.shared}
        self.shared, self.own = shared, own

    def of(self, type: str) -> dict[str, Any]:
        if type.endswith("?"):
            return {"anyOf": [self.of(type[:-1]), _NULL]}
        if is_list(type):
            return {"type": "array", "items": self.of(inner(type))}
        if is_map(type):
            return {"type": "object", "additionalProperties": self.of(inner(type))}
        if type in self.contract.enums:
            return {"enum": list(self.contract.enums[type])}
        basic: dict[str, dict[str, Any]] = {
            "text": {"type": "string"},
            "path": {"type": "string"},
            "count": _COUNT,
            "index": _COUNT,
            "integer": {"type": "integer"},
            "number": {"$ref": f"{self.shared}number"},
            "finite": {"type": "number"},
            "flag": {"type": "boolean"},
            "dtype": {"anyOf": [{"type": "string"}, _NULL]},
            "shape": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, _NULL]},
            "json": {},
        }
        if type in basic:
            return basic[type]
        return {"$ref": (self.shared if type in self.shared_names else self.own) + type}

    def member(self, member: Member) -> dict[str, Any]:
        return {**self.of(member.type), "description": member.meaning}

    def members(self, type: Type) -> dict[str, dict[str, Any]]:
        """Those of the object, with those of merged types."""
        found: dict[str, dict[str, Any]] = {}
        for member in type.members:
            if member.merged:
                found |= self.members(self.contract.types[member.type])
            else:
                found[member.name] = self.member(member)
        return found

    def required(self, type: Type) -> list[str]:
        """Those that every object of the type has, also of merged types."""
        merged = [one for one in type.members if one.merged and not one.left_out]
        return always(type) + [name for one in merged for name in self.required(self.contract.types[one.type])]

    def object(self, type: Type) -> dict[str, Any]:
        schema: dict[str, Any] = {
            "description": type.meaning,
            "type": "object",
            "properties": self.members(type),
            "required": self.required(type),
            "additionalProperties": self.of(type.rest) if type.rest else False,
        }
        if type.forms:
            schema["anyOf"] = [{"required": list(form)} for form in type.forms]
        return schema


def always(type: Type) -> list[str]:
    """The members that every object of the type has."""
    in_forms = {name for form in type.forms for name in form}
    return [
        member.name
        for member in type.members
        if not member.left_out and not member.merged and member.name not in in_forms
    ]


def number_schema() -> dict[str, Any]:
    return {
        "description": "A number; one that JSON does not have is a text.",
        "anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}],
    }


def common_schema(contract: Contract) -> dict[str, Any]:
    """common.schema.json: what the answers of several verbs have in common."""
    schemas = Schemas(contract, "#/$defs/")
    return {
        "$schema": DIALECT,
        "$id": "common.schema.json",
        "title": "What the answers of several verbs have in common",
        "$defs": {"number": number_schema()}
        | _envelope(schemas)
        | {one.name: schemas.object(one) for one in contract.shared},
    }


def _envelope(schemas: Schemas) -> dict[str, dict[str, Any]]:
    """The members that every document has, and `error`."""
    return {member.name: schemas.member(member) for member in (*ENVELOPE, ERROR)}


def _document(schemas: Schemas, answer: Type) -> dict[str, Any]:
    """The answer with its envelope. Its members may be missing beside `error`."""
    schema = schemas.object(answer)
    envelope = {name: {"$ref": f"{schemas.shared}{name}"} for name in _envelope(schemas)}
    needed = [always(answer) + list(form) for form in answer.forms or [()]]
    return {
        **schema,
        "properties": schema["properties"] | envelope,
        "required": ["problems", "warnings"],
        "anyOf": [{"required": form} for form in needed] + [{"required": ["error"]}],
    }


def question_schema(contract: Contract, question: Question) -> dict[str, Any]:
    """VERB.schema.json."""
    schemas = Schemas(contract, "common.schema.json#/$defs/")
    head = {"$schema": DIALECT, "$id": f"{question.verb}.schema.json", "title": question.title}
    parts = {one.name: schemas.object(one) for one in question.types}
    if not question.or_answer:
        return head | _document(schemas, question.answer) | ({"$defs": parts} if parts else {})
    answers = [question.answer, contract.types[question.or_answer]]
    documents = {one.name: _document(schemas, one) for one in answers}
    return head | {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in documents], "$defs": parts | documents}


def text_of(value: Any, indent: int = 0, width: int = 120) -> str:
    """JSON with an object or a list in one line where it fits."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent <= width or not isinstance(value, (dict, list)) or not value:
        return line
    pad = " " * (indent + 2)
    if isinstance(value, dict):
        rows = [f"{json.dumps(key)}: {text_of(one, indent + 2, width)}" for key, one in value.items()]
        return "{\n" + ",\n".join(pad + row for row in rows) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(pad + text_of(one, indent + 2, width) for one in value) + "\n" + " " * indent + "]"


def openapi(contract: Contract, api: dict[str, Any]) -> dict[str, Any]:
    """openapi.json with the schemas of the answers that the server gives and the rows of its tables."""
    schemas = Schemas(contract, "#/components/schemas/", "#/components/schemas/")
    own = {name: schema for name, schema in api["components"]["schemas"].items() if not name[0].isupper()}
    found = own | {one.name: schemas.object(one) for one in served(contract)}
    for question in contract.questions:
        if question.answer.name in found:
            found[question.answer.name]["properties"] |= _envelope(schemas)
    found["class"] = found["class"] | {"enum": list(contract.enums["State"])}
    found["JobArguments"] = job_schema(contract)
    put_rows(contract, api["paths"])
    return api | {"components": api["components"] | {"schemas": found}}


def served(contract: Contract) -> list[Type]:
    """What answers of the server contain, with its parts."""
    needed = contract.with_parts(["Problem", "Failure", "Tensor", "FirstBad", *(one.name for one in contract.served)])
    return [one for one in needed if one.name != "Statistics"]
