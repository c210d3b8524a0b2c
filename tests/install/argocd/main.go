// argocd does two things as Argo CD does them. A health check: the script reads the global obj and returns a table with status and message.
// What is ignored of an object: Argo CD compiles del(EXPRESSION), and leaves out, without a word to the user, what does not compile.
// It reads one JSON object {"script": TEXT, "obj": OBJECT} or {"ignored": EXPRESSION, "obj": OBJECT} from each line of standard input, and
// prints one {"status", "message"} for each, or the object without what is ignored.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/itchyny/gojq"
	lua "github.com/yuin/gopher-lua"
)

// asked is one line of the input.
type asked struct {
	Script  string         `json:"script"`
	Ignored string         `json:"ignored"`
	Obj     map[string]any `json:"obj"`
}

// value is what a value of JSON is in Lua.
func value(state *lua.LState, from any) lua.LValue {
	switch of := from.(type) {
	case bool:
		return lua.LBool(of)
	case float64:
		return lua.LNumber(of)
	case string:
		return lua.LString(of)
	case []any:
		table := state.CreateTable(len(of), 0)
		for _, one := range of {
			table.Append(value(state, one))
		}
		return table
	case map[string]any:
		table := state.CreateTable(0, len(of))
		for key, one := range of {
			table.RawSetString(key, value(state, one))
		}
		return table
	default:
		return lua.LNil
	}
}

// health runs one script, with the libraries that Argo CD opens by default.
func health(one asked) (map[string]string, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(library.open), Protect: true}, lua.LString(library.name)); err != nil {
			return nil, err
		}
	}
	state.SetGlobal("obj", value(state, one.Obj))
	if err := state.DoString(one.Script); err != nil {
		return nil, err
	}
	table, is := state.Get(-1).(*lua.LTable)
	if !is {
		return nil, fmt.Errorf("found %s, wanted a table", state.Get(-1).Type())
	}
	said := map[string]string{}
	for _, field := range []string{"status", "message"} {
		said[field] = lua.LVAsString(table.RawGetString(field))
	}
	return said, nil
}

// without is the object without what an expression of jqPathExpressions names.
func without(one asked) (any, error) {
	query, err := gojq.Parse("del(" + one.Ignored + ")")
	if err != nil {
		return nil, err
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, err
	}
	found, is := code.Run(one.Obj).Next()
	if !is {
		return nil, fmt.Errorf("%s: found nothing, wanted an object", one.Ignored)
	}
	if err, is := found.(error); is {
		return nil, err
	}
	return found, nil
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var one asked
		err := json.Unmarshal(lines.Bytes(), &one)
		var said any
		if err == nil && one.Ignored != "" {
			said, err = without(one)
		} else if err == nil {
			said, err = health(one)
		}
		if err == nil {
			err = answers.Encode(said)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
