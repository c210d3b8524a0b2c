// Waits while the node carries an annotation. It needs the contract in wit/ and nothing else of numo. It may not pass when
// it cannot tell.

const NAME = "my-rule";
const VERSION = "0.1.0";
const PHASE = "pre";
// What holds a node unless the configuration says otherwise.
const ANNOTATION = "example.com/hold";
const SCHEMA = {
  type: "object",
  additionalProperties: false,
  properties: { annotation: { type: "string", minLength: 1, default: ANNOTATION } },
};

// An error of the contract: a variant with its tag and value.
class RuleError extends Error {
  constructor(tag, val) {
    super(tag);
    this.variant = { tag, val };
  }
}

// The annotation that the configuration names, and everything that is wrong with it.
function parse(text) {
  let fields = null;
  try {
    fields = JSON.parse(text);
  } catch {
    // Said below.
  }
  if (fields === null || typeof fields !== "object" || Array.isArray(fields)) {
    return { annotation: ANNOTATION, problems: [{ pointer: "", message: "must be an object" }] };
  }
  let annotation = ANNOTATION;
  const problems = [];
  for (const [name, value] of Object.entries(fields)) {
    const pointer = "/" + name.replaceAll("~", "~0").replaceAll("/", "~1");
    if (name !== "annotation") {
      problems.push({ pointer, message: "unknown field; known is annotation" });
    } else if (typeof value !== "string" || value === "") {
      problems.push({ pointer, message: "must be a string that is not empty" });
    } else {
      annotation = value;
    }
  }
  return { annotation, problems };
}

function report(reason, summary) {
  return { reason, summary, findings: [], dataJson: null, attributes: [] };
}

// The verdict about one node.
function decide(input) {
  if (input.phase !== PHASE) {
    throw new RuleError("failed", `unknown phase ${JSON.stringify(input.phase)}`);
  }
  const { annotation, problems } = parse(input.configJson);
  if (problems.length > 0) {
    throw new RuleError("invalid-config", problems);
  }
  if (!input.node) {
    throw new RuleError("failed", "this rule needs a node");
  }
  const { name, objectJson } = input.node;
  const annotations = JSON.parse(objectJson).metadata?.annotations ?? {};
  if (!Object.hasOwn(annotations, annotation)) {
    return { tag: "pass", val: report("NotHeld", `${name} carries no ${annotation}`) };
  }
  const why = JSON.stringify(annotations[annotation]);
  const held = report("Held", `${name} is held: ${why}`);
  held.findings.push({
    code: "Annotation",
    severity: "error",
    message: `${annotation} is ${why}`,
    object: { apiVersion: "v1", kind: "Node", namespace: null, name },
    attributes: [],
  });
  held.dataJson = JSON.stringify({ annotation });
  return { tag: "wait", val: { report: held, retryAfterSeconds: 60, progressPercent: null } };
}

// What numo calls.
export const evaluation = {
  // Says what the rule is. What it needs of the host would stand in `wants`.
  describe() {
    return {
      name: NAME,
      version: VERSION,
      summary: "Waits while the node carries an annotation",
      phases: [PHASE],
      wants: [],
      configSchemaJson: JSON.stringify(SCHEMA),
      attributes: [],
    };
  },

  // Says everything that is wrong with the configuration, each fault with its JSON pointer.
  validateConfig(text) {
    const { problems } = parse(text);
    if (problems.length > 0) {
      throw problems;
    }
  },

  // Decides. An error that nobody catches would be a trap without a word: it is handed on as text.
  evaluate(input) {
    try {
      return decide(input);
    } catch (error) {
      if (error instanceof RuleError) {
        throw error.variant;
      }
      throw { tag: "failed", val: `${error}\n${error.stack ?? ""}`.slice(0, 1000) };
    }
  },
};
