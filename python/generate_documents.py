"""Makes kumade/documents from ../schemas: python3 generate_documents.py; with --check, says whether they agree."""

import json
import keyword
import pathlib
import sys
import textwrap

HERE = pathlib.Path(__file__).parent
# Those that the module returns. Each becomes a module, whose class `Document` is the whole of it.
SCHEMAS = {
    "measure": "kumade.measure.1",
    "lab_accuracy": "kumade.lab.1",
    "lab_contention": "kumade.lab.contention.1",
    "lab_fairness": "kumade.lab.fairness.1",
    "lab_fast_links": "kumade.lab.fast-links.1",
    "lab_multipath": "kumade.lab.multipath.1",
    "lab_nat_session": "kumade.lab.nat-session.1",
    "lab_path_atlas": "kumade.lab.path-atlas.1",
}
SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
TYPING = ("Any", "Dict", "List", "Literal", "Optional", "Tuple", "TypedDict", "Union")
LINE_WIDTH = 110


def union(types):
    types = list(dict.fromkeys(types))
    plain = [kind for kind in types if kind != "None"]
    literals = [kind[len("Literal[") : -1] for kind in plain if kind.startswith("Literal[")]
    if len(literals) > 1 and len(literals) == len(plain):
        plain = [f"Literal[{', '.join(literals)}]"]
    one = plain[0] if len(plain) == 1 else f"Union[{', '.join(plain)}]"
    return f"Optional[{one}]" if len(plain) < len(types) and "None" in types else one


def annotation(schema):
    """The type of what a schema describes."""
    if schema is True or not set(schema) - {"description", "default"}:
        return "Any"
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    if "const" in schema:
        return f"Literal[{schema['const']!r}]".replace("'", '"')
    if "enum" in schema:
        return f"Literal[{', '.join(json.dumps(value) for value in schema['enum'])}]"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return union(annotation(part) for part in schema[key])
    kind = schema["type"]
    if isinstance(kind, list):
        return union(annotation({**schema, "type": one}) for one in kind)
    if kind == "array":
        return f"List[{annotation(schema.get('items', True))}]"
    if kind == "object":
        if "properties" in schema:
            raise SystemExit(f"an object without a name: {json.dumps(schema)[:200]}")
        return f"Dict[str, {annotation(schema.get('additionalProperties', True))}]"
    return SIMPLE[kind]


def docstring(text, indent):
    text = " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")
    if text.endswith('"'):
        text += " "
    lines = textwrap.wrap(f'"""{text}"""', LINE_WIDTH - len(indent), break_long_words=False, break_on_hyphens=False)
    return [indent + line for line in lines]


def fields(properties):
    for name, schema in properties.items():
        yield f"    {name}: {annotation(schema)}"
        if isinstance(schema, dict) and "description" in schema:
            yield from docstring(schema["description"], "    ")


def definition(name, schema):
    if schema.get("type") != "object" or "properties" not in schema:
        lines = [f"{name} = {annotation(schema)}"]
        return lines + (docstring(schema["description"], "") if "description" in schema else [])
    properties = schema["properties"]
    required = {key: value for key, value in properties.items() if key in schema.get("required", ())}
    optional = {key: value for key, value in properties.items() if key not in required}
    doc = docstring(schema.get("description", name), "    ")
    if not optional:
        return structure(name, required, doc)
    parts = [structure(f"_{name}Required", required, []), structure(f"_{name}Optional", optional, [], ", total=False")]
    whole = [f"class {name}(_{name}Required, _{name}Optional):", *doc]
    return [*parts[0], "", "", *parts[1], "", "", *whole]


def structure(name, properties, doc, option=""):
    """A class; or a call of TypedDict, where a field's name is a keyword of Python."""
    if not any(keyword.iskeyword(key) for key in properties):
        return [f"class {name}(TypedDict{option}):", *doc, *([""] if doc else []), *(list(fields(properties)) or ["    pass"])]
    entries = [f'    "{key}": {annotation(value)},' for key, value in properties.items()]
    return [f'{name} = TypedDict(', f'    "{name}",', "    {", *(f"    {entry}" for entry in entries), f"    }}{option},", ")", *(line.strip() for line in doc)]


def references(schema):
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].rsplit("/", 1)[1]
        for value in schema.values():
            yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def in_order(definitions):
    """Each after those that it names."""
    done = {}

    def visit(name):
        if name not in done:
            for used in sorted(set(references(definitions[name]))):
                visit(used)
            done[name] = definitions[name]

    for name in sorted(definitions):
        visit(name)
    return done


def module(schema_name):
    schema = json.loads((HERE.parent / "schemas" / f"{schema_name}.json").read_text())
    definitions = in_order(schema.get("$defs", {}))
    root = {key: value for key, value in schema.items() if key != "$defs"}
    parts = [definition(name, one) for name, one in [*definitions.items(), ("Document", root)]]
    body = "\n\n\n".join("\n".join(part) for part in parts)
    used = [name for name in TYPING if f"{name}[" in body or f"({name}" in body or f"= {name}(" in body]
    head = f'"""{schema_name.rsplit(".", 1)[0]}/1, made from schemas/{schema_name}.json by generate_documents.py."""'
    return f"{head}\n\nfrom typing import {', '.join(used)}\n\n{body}\n"


def main():
    stale = []
    for name, schema in SCHEMAS.items():
        path = HERE / "kumade/documents" / f"{name}.py"
        text = module(schema)
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(path.name)
    if stale:
        raise SystemExit(f"{', '.join(stale)} do not agree with schemas/: run python3 python/generate_documents.py")


if __name__ == "__main__":
    main()
