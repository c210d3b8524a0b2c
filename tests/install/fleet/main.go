// fleet does three things as the tools do them that bring objects to several clusters. A template of an ApplicationSet is filled in by
// text/template, whose missing keys are errors, as the example asks. An expression of CEL is evaluated with the functions that Flux and
// Kubernetes both have; its variables are the fields of the object (Flux) or the object itself (Open Cluster Management). A Kustomization of
// Flux is read by Flux' own types, which refuse a field that is not theirs.
// It reads one JSON object {"template": TEXT, "vars": OBJECT}, {"expression": TEXT, "vars": OBJECT} or {"kustomization": OBJECT} from each line
// of standard input, and prints one {"text"}, {"is"} or {} for each, or {"error"}.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/template"

	kustomize "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

// asked is one line of the input.
type asked struct {
	Template      string          `json:"template"`
	Expression    string          `json:"expression"`
	Vars          map[string]any  `json:"vars"`
	Kustomization json.RawMessage `json:"kustomization"`
}

// filled is a template with its variables.
func filled(one asked) (any, error) {
	made, err := template.New("one").Option("missingkey=error").Parse(one.Template)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	if err := made.Execute(&text, one.Vars); err != nil {
		return nil, err
	}
	return map[string]string{"text": text.String()}, nil
}

// evaluated is what an expression says, which must be true or false.
func evaluated(one asked) (any, error) {
	env, err := cel.NewEnv(cel.CrossTypeNumericComparisons(true), ext.Strings())
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(one.Expression)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	program, err := env.Program(parsed)
	if err != nil {
		return nil, err
	}
	value, _, err := program.Eval(one.Vars)
	if err != nil {
		return nil, err
	}
	is, ok := value.Value().(bool)
	if !ok {
		return nil, fmt.Errorf("found %v, wanted true or false", value)
	}
	return map[string]bool{"is": is}, nil
}

// read takes a Kustomization apart.
func read(one asked) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(one.Kustomization))
	decoder.DisallowUnknownFields()
	return map[string]string{}, decoder.Decode(&kustomize.Kustomization{})
}

func answer(line []byte) (any, error) {
	var one asked
	if err := json.Unmarshal(line, &one); err != nil {
		return nil, err
	}
	switch {
	case one.Template != "":
		return filled(one)
	case one.Expression != "":
		return evaluated(one)
	default:
		return read(one)
	}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		said, err := answer(lines.Bytes())
		if err != nil {
			said = map[string]string{"error": err.Error()}
		}
		if err := out.Encode(said); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
