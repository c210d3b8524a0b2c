"""Waits while the node carries an annotation. It needs the contract in wit/ and nothing else of numo. It may not pass
when it cannot tell."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.evaluation import (
    ConfigProblem,
    Description,
    Finding,
    Report,
    RuleError_Failed,
    RuleError_InvalidConfig,
    Severity,
    Verdict_Pass,
    Verdict_Wait,
    Wait,
)
from wit_world.imports.types import ObjectRef

NAME = "my-rule"
VERSION = "0.1.0"
PHASE = "pre"
# What holds a node unless the configuration says otherwise.
ANNOTATION = "example.com/hold"
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"annotation": {"type": "string", "minLength": 1, "default": ANNOTATION}},
}


def parse(text):
    """The annotation that the configuration names, and everything that is wrong with it."""
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        return ANNOTATION, [ConfigProblem("", "must be an object")]
    annotation, problems = ANNOTATION, []
    for name, value in fields.items():
        pointer = "/" + name.replace("~", "~0").replace("/", "~1")
        if name != "annotation":
            problems.append(ConfigProblem(pointer, "unknown field; known is annotation"))
        elif not isinstance(value, str) or not value:
            problems.append(ConfigProblem(pointer, "must be a string that is not empty"))
        else:
            annotation = value
    return annotation, problems


def decide(given):
    """The verdict about one node."""
    if given.phase != PHASE:
        raise Err(RuleError_Failed(f"unknown phase {given.phase!r}"))
    annotation, problems = parse(given.config_json)
    if problems:
        raise Err(RuleError_InvalidConfig(problems))
    if given.node is None:
        raise Err(RuleError_Failed("this rule needs a node"))
    name = given.node.name
    annotations = json.loads(given.node.object_json).get("metadata", {}).get("annotations") or {}
    if annotation not in annotations:
        return Verdict_Pass(Report("NotHeld", f"{name} carries no {annotation}", [], None, []))
    why = json.dumps(annotations[annotation], ensure_ascii=False)
    held = Finding(
        code="Annotation",
        severity=Severity.ERROR,
        message=f"{annotation} is {why}",
        object=ObjectRef("v1", "Node", None, name),
        attributes=[],
    )
    data = json.dumps({"annotation": annotation})
    return Verdict_Wait(Wait(Report("Held", f"{name} is held: {why}", [held], data, []), 60, None))


def told(error):
    """What went wrong and where. Python's own traceback looks for source files, and there is no file system here."""
    lines, frame = [], error.__traceback__
    while frame is not None:
        lines.append(f"{frame.tb_frame.f_code.co_name}:{frame.tb_lineno}")
        frame = frame.tb_next
    return f"{type(error).__name__}: {error} at {' > '.join(lines)}"[:1000]


class Evaluation(exports.Evaluation):
    """What numo calls."""

    def describe(self):
        """Says what the rule is. What it needs of the host would stand in the list of wants, here empty."""
        summary = "Waits while the node carries an annotation"
        return Description(NAME, VERSION, summary, [PHASE], [], json.dumps(SCHEMA), [])

    def validate_config(self, config_json):
        """Says everything that is wrong with the configuration, each fault with its JSON pointer."""
        _, problems = parse(config_json)
        if problems:
            raise Err(problems)

    def evaluate(self, input):
        """Decides. An exception that nobody catches would be a trap without a word: it is handed on as text."""
        try:
            return decide(input)
        except Err:
            raise
        except Exception as error:
            raise Err(RuleError_Failed(told(error)))
