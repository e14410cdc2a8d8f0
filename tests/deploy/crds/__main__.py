"""Reduce schemas of Kubernetes' kinds to what the tests read, each to a file beside this one.

    python -m tests.deploy.crds NAME SOURCE KIND VERSION CRD.yaml      # of a CustomResourceDefinition
    python -m tests.deploy.crds NAME SOURCE KIND VERSION SCHEMA.json   # of `kubernetes-validate`, unpacked

Descriptions and the status are left out. Parts that occur more than once stand once, in `$defs`. Nothing else changes,
except that fields which a schema doesn't have are refused, as by an API server with `fieldValidation=Strict`.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

_LICENCE = (
    "Licensed under the Apache License, Version 2.0 (the 'License'); you may not use this file except in compliance "
    "with the License. You may obtain a copy of the License at http://www.apache.org/licenses/LICENSE-2.0. Unless "
    "required by applicable law or agreed to in writing, software distributed under the License is distributed on an "
    "'AS IS' BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for the "
    "specific language governing permissions and limitations under the License."
)
_SHARED = 150  # characters of a part that is worth a name
_CHECKED = {"type", "enum", "required", "pattern", "minimum", "maximum", "format", "minLength", "maxLength", "minItems"}
_ANY = "x-kubernetes-preserve-unknown-fields"


def strict(schema: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """The schema without descriptions, which refuses fields that it doesn't have. It may refer to named ones."""
    if "$ref" in schema:
        return strict(named[schema["$ref"].rpartition("/")[2]], named)
    new = {name: value for name, value in schema.items() if name in _CHECKED}
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return {"type": ["integer", "string"]}
    if "properties" in schema:
        new["properties"] = {name: strict(each, named) for name, each in schema["properties"].items()}
        if not schema.get(_ANY) and not isinstance(schema.get("additionalProperties"), dict):
            new["additionalProperties"] = False
    if isinstance(schema.get("additionalProperties"), dict):
        new["additionalProperties"] = strict(schema["additionalProperties"], named)
    if "items" in schema:
        new["items"] = strict(schema["items"], named)
    for several in ("anyOf", "oneOf", "allOf"):  # parts of one value, whose fields the schema around them has
        if several in schema:
            new[several] = [{name: part[name] for name in part if name in _CHECKED} for part in schema[several]]
    return new


def shared(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema, in which parts that occur more than once are in ``$defs``."""
    count: Counter[str] = Counter()

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            text = json.dumps(part, sort_keys=True)
            count[text] += 1
            if count[text] > 1 and len(text) > _SHARED and isinstance(part.get("type"), (str, list)):
                return
            for each in part.values():
                walk(each)

    walk(schema)
    names: dict[str, str] = {}
    parts: dict[str, Any] = {}

    def name(part: Any, *, top: bool = False) -> Any:
        if isinstance(part, list):
            return [name(each) for each in part]
        if not isinstance(part, dict):
            return part
        text = json.dumps(part, sort_keys=True)
        if top or count[text] < 2 or len(text) <= _SHARED or not isinstance(part.get("type"), (str, list)):
            return {key: name(each) for key, each in part.items()}
        if text not in names:
            names[text] = f"part{len(names)}"
            parts[names[text]] = name(part, top=True)
        return {"$ref": f"#/$defs/{names[text]}"}

    return {**name(schema, top=True), "$defs": parts}


def read(path: Path, kind: str, version: str) -> dict[str, Any]:
    """The strict schema of a kind in a file: a CustomResourceDefinition, or a JSON schema."""
    if path.suffix == ".json":
        named = json.loads(path.with_name("_definitions.json").read_text())["$defs"]
        return strict(json.loads(path.read_text()), named)
    [(group, schema)] = [
        (crd["spec"]["group"], offered["schema"]["openAPIV3Schema"])
        for crd in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader)
        if crd and crd["spec"]["names"]["kind"] == kind
        for offered in crd["spec"]["versions"]
        if offered["name"] == version
    ]
    new = strict(schema, {})
    new["properties"] |= {"apiVersion": {"enum": [f"{group}/{version}"]}, "kind": {"enum": [kind]}}
    return new


def main(name: str, source: str, kind: str, version: str, path: str) -> None:
    """Write the file."""
    schema = read(Path(path), kind, version)
    schema["properties"].pop("status", None)
    schema["required"] = sorted({*schema.get("required", ()), "apiVersion", "kind"})
    if schema["properties"].get("metadata") in (None, {"type": "object"}):  # as every API server has it
        texts = {"type": "object", "additionalProperties": {"type": "string"}}
        own = {"name": {"type": "string"}, "namespace": {"type": "string"}, "labels": texts, "annotations": texts}
        schema["properties"]["metadata"] = {"type": "object", "properties": own, "additionalProperties": False}
    whole = {"$comment": f"{kind} of {source}, reduced by python -m tests.deploy.crds. {_LICENCE}", **shared(schema)}
    parts = whole.pop("$defs")
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in whole.items()]
    defs = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in parts.items())
    lines.append(f' "$defs": {{\n{defs}\n }}')
    Path(__file__).with_name(f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
