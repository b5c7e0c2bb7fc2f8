package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/alecthomas/kong"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/pool"
)

// parseLine is the command line as main reads it, without running anything.
func parseLine(t *testing.T, args ...string) (*commands, *config, error) {
	t.Helper()
	c, file := &commands{}, &config{}
	parser := newParser(c, file, io.Discard, io.Discard)
	parsed, err := parser.Parse(args)
	if err != nil {
		return c, file, wrongUse(parsed, file, err)
	}
	return c, file, nil
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "udfgate.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// eachFlag calls test for every flag of every command, with what has to stand
// on the command line beside it. at finds the flag's field in a parsed command.
func eachFlag(t *testing.T, test func(t *testing.T, flag *kong.Flag, line []string, at func(*commands) any)) {
	t.Helper()
	var c commands
	model := newParser(&c, &config{}, io.Discard, io.Discard).Model
	flags := 0
	for _, command := range model.Children {
		line := []string{command.Name}
		for _, arg := range command.Positional {
			if arg.Enum != "" {
				line = append(line, arg.EnumSlice()[0])
			} else {
				line = append(line, "x.py")
			}
		}
		for _, flag := range command.Flags {
			flags++
			// kong makes the same model of every commands: the field is the one
			// at the same place in the struct.
			offset := flag.Target.Addr().Pointer() - reflect.ValueOf(&c).Pointer()
			at := func(other *commands) any { return fieldAt(reflect.ValueOf(other).Elem(), offset, flag.Target.Type()) }
			t.Run(command.Name+"/"+flag.Name, func(t *testing.T) { test(t, flag, line, at) })
		}
	}
	if flags < 20 {
		t.Fatalf("found %d flags", flags)
	}
}

// fieldAt is the value of the field of the type at an offset into a struct.
func fieldAt(v reflect.Value, offset uintptr, want reflect.Type) any {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if offset == f.Offset && f.Type == want {
			return v.Field(i).Interface()
		}
		if f.Type.Kind() == reflect.Struct && offset >= f.Offset && offset < f.Offset+f.Type.Size() {
			return fieldAt(v.Field(i), offset-f.Offset, want)
		}
	}
	panic("no such field")
}

// samples are three values of a flag, as a flag and a variable take them and
// as the file does.
func samples(flag *kong.Flag) (texts, yamls []string) {
	switch kind := flag.Target.Type(); {
	case slices.Contains(choices(flag.Value), "null"):
		return []string{"null", "fail", "null"}, []string{"null", "fail", `"null"`}
	case flag.Enum != "":
		texts = append(choices(flag.Value), choices(flag.Value)...)
	case kind == sizeType:
		texts = []string{"64MiB", "1GB", "4096"}
	case kind == reflect.TypeFor[time.Duration]():
		texts = []string{"1s", "2m", "300ms"}
	case kind.Kind() == reflect.Bool:
		texts = []string{"true", "false", "true"}
	case flag.IsSlice() && flag.Tag.Sep == -1: // commas are part of a value
		return []string{"a=1,2", "c=", "d=e"}, []string{`["a=1,2"]`, "c=", "[d=e]"}
	case flag.IsSlice() && kind.Elem().Kind() == reflect.String:
		return []string{"a,b", "c", "d,e"}, []string{"[a, b]", "c", "[d, e]"}
	case flag.IsSlice():
		return []string{"1,2", "3", "4,5"}, []string{"[1, 2]", "3", "[4, 5]"}
	case kind.Kind() == reflect.String:
		texts = []string{"one", "two", "three"}
	default:
		texts = []string{"7", "8", "9"}
	}
	return texts, texts
}

// The flag, its variable and its key set the same field to the same value.
func TestSameField(t *testing.T) {
	eachFlag(t, func(t *testing.T, flag *kong.Flag, line []string, at func(*commands) any) {
		texts, yamls := samples(flag)
		name := "UDFGATE_" + strings.ToUpper(keyOf(flag.Name))
		if !slices.Equal(flag.Envs, []string{name}) {
			t.Errorf("variables %v, want %s", flag.Envs, name)
		}
		standard, _, err := parseLine(t, line...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			byFlag, _, err := parseLine(t, append(line, "--"+flag.Name+"="+texts[i])...)
			if err != nil {
				t.Fatal(err)
			}
			byFile, _, err := parseLine(t, append(line, "--config", configFile(t, keyOf(flag.Name)+": "+yamls[i]+"\n"))...)
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv(name, texts[i])
			byVariable, _, err := parseLine(t, line...)
			if err != nil {
				t.Fatal(err)
			}
			_ = os.Unsetenv(name)
			if !reflect.DeepEqual(at(byFlag), at(byVariable)) || !reflect.DeepEqual(at(byFlag), at(byFile)) {
				t.Errorf("%s: flag %v, variable %v, file %v", texts[i], at(byFlag), at(byVariable), at(byFile))
			}
			if i == 0 && flag.Enum == "" && reflect.DeepEqual(at(byFlag), at(standard)) {
				t.Errorf("%s is the default, so the test shows nothing", texts[i])
			}
		}
	})
}

// Flag over variable over file over default.
func TestPrecedence(t *testing.T) {
	eachFlag(t, func(t *testing.T, flag *kong.Flag, line []string, at func(*commands) any) {
		texts, yamls := samples(flag)
		name := "UDFGATE_" + strings.ToUpper(keyOf(flag.Name))
		want := func(i int) any {
			t.Helper()
			c, _, err := parseLine(t, append(line, "--"+flag.Name+"="+texts[i])...)
			if err != nil {
				t.Fatal(err)
			}
			return at(c)
		}
		// Two neighbours at a time: a switch has two values only.
		for i := range 2 {
			first, second := want(i), want(i+1)
			with := append(line, "--config", configFile(t, keyOf(flag.Name)+": "+yamls[i+1]+"\n"))
			t.Setenv(name, texts[i])
			c, _, err := parseLine(t, with...)
			if err != nil || !reflect.DeepEqual(at(c), first) {
				t.Errorf("variable %s, file %s: got %v, %v", texts[i], yamls[i+1], at(c), err)
			}
			c, _, err = parseLine(t, append(with, "--"+flag.Name+"="+texts[i+1])...)
			if err != nil || !reflect.DeepEqual(at(c), second) {
				t.Errorf("flag %s, variable %s: got %v, %v", texts[i+1], texts[i], at(c), err)
			}
			_ = os.Unsetenv(name)
		}
	})
}

// Every flag says what it is, and what its value looks like.
func TestHelpTexts(t *testing.T) {
	eachFlag(t, func(t *testing.T, flag *kong.Flag, _ []string, _ func(*commands) any) {
		if help := []rune(flag.Help); len(help) == 0 || !unicode.IsUpper(help[0]) || help[len(help)-1] != '.' {
			if !strings.HasSuffix(flag.Help, ". Repeatable") {
				t.Errorf("help %q: wanted a sentence", flag.Help)
			}
		}
		if !flag.IsBool() && flag.PlaceHolder == "" {
			t.Error("no placeholder")
		}
	})
}

// What is wrong with a file: all of it, each with its place.
func TestConfig_wrong(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"pyton: x\nWorkers: 3\nqueue_time: 1s\n", `1:1: unknown key "pyton", did you mean "python"? | ` +
			`2:1: unknown key "Workers", did you mean "workers"? | 3:1: unknown key "queue_time", did you mean "queue_timeout"?`},
		{"max-queue: 3\n", `1:1: unknown key "max-queue", did you mean "max_queue"?`},
		{"config: other.yaml\n", `1:1: config is not taken: one file does not name another`},
		{"workers: many\n", `1:10: workers: wanted a whole number, got "many"`},
		{"workers: 1.5\n", `1:10: workers: wanted a whole number, got 1.5`},
		{"workers: 99999999999999999999\n", `1:10: workers: wanted a whole number, got 99999999999999999999`},
		{"workers: [1]\n", `1:10: workers: wanted a whole number, got a list`},
		{"workers: {max: 1}\n", `1:10: workers: wanted a whole number, got a mapping`},
		{"workers:\n", `1:9: workers: wanted a whole number, got nothing; leave the key out for the default`},
		{"python: 3.11\n", `1:9: python: wanted a text, got 3.11; a text needs quotes here`},
		{"http: false\n", `1:7: http: wanted a text, got false; the word for it is off`},
		{"functions: [add]\n", `1:12: functions: wanted the functions' options by name, such as {add: {timeout: 2s}}, got a list`},
		{"timeout: 30\n", `1:10: timeout: wanted a time such as 2s, got 30`},
		{"timeout: soon\n", `1:10: timeout: wanted a time such as 2s, got "soon"`},
		{"max_message_bytes: 1XB\n", `1:20: max_message_bytes: wanted a size such as 256MiB, got "1XB"`},
		{"insecure: yes\n", `1:11: insecure: wanted true or false, got "yes"`},
		{"log_level: loud\n", `1:12: log_level: wanted one of debug, info, warn, error, got "loud"`},
		{"listen: [a:1, 2]\n", `1:9: listen: wanted texts, got 2`},
		{"listen: []\n", `1:9: listen: wanted texts, got an empty list; leave the key out for the default`},
		{"workers: 1\nworkers: 2\n", `2:1: workers is set twice, first in line 1`},
		{"pools: {}\naliases: {}\naccess: []\n", `1:1: pools is not built yet | 2:1: aliases is not built yet | 3:1: access is not built yet`},
		{"- workers\n", `1:1: wanted keys and values, got a list`},
		{"workers\n", `1:1: wanted keys and values, got "workers"`},
		{"[a]: 1\n", `1:1: wanted a name as the key, got a list`},
		{"<<: {workers: 1}\n", `1:1: << is not taken: an alias stands for a whole value`},
		{"workers: 1\n  python: x\n", `2:9: no YAML: mapping values are not allowed in this context`},
		{"workers: *x\n", `1:10: no YAML: unknown anchor 'x' referenced`},
		{"workers: 1\n---\nworkers: 2\n", `wanted one document, got several`},
		{"functions: {f: {timeut: 2s}}\n", `1:17: functions: f: unknown key "timeut", did you mean "timeout"?`},
		{"functions: {f: {elementwise: true, coalesce: {}}}\n", `1:17: functions: f: elementwise is not built yet | ` +
			`1:36: functions: f: coalesce is not built yet`},
		{"functions: {f: {concurrency: 0}}\n", `1:30: functions: f: concurrency: wanted a whole number from 1 to 2147483647, got 0`},
		{"functions: {f: {concurrency: many}}\n", `1:30: functions: f: concurrency: wanted a whole number from 1 to 2147483647, got "many"`},
		{"functions: {f: {timeout: 0s}}\n", `1:26: functions: f: timeout: wanted a time above 0 such as 2s, got "0s"`},
		{"functions: {f: {timeout: 2}}\n", `1:26: functions: f: timeout: wanted a time above 0 such as 2s, got 2`},
		{"functions: {f: {on_error: skip}}\n", `1:27: functions: f: on_error: wanted fail, null or reject, got "skip"`},
		{"functions: {f: {on_error: }}\n", `1:27: functions: f: on_error: wanted fail, null or reject, got nothing; leave the key out for the default`},
		{"functions: {f: 2s}\n", `1:16: functions: f: wanted keys and values, got "2s"`},
		{"functions: {f: {timeout: 1s}, f: {}}\n", `1:31: functions: f is set twice, first in line 1`},
		{"functions: &f {g: *f}\n", `1:16: functions: g: unknown key "g", the nearest is "timeout"`},
	} {
		name := configFile(t, c.text)
		_, _, err := parseLine(t, "serve", "x.py", "--config", name)
		f, ok := errors.AsType[*failure](err)
		if !ok || f.code != exitUsage {
			t.Errorf("%q: error %v", c.text, err)
			continue
		}
		all := []string{f.Error()}
		for _, more := range f.also {
			all = append(all, f.what+": "+more.Error())
		}
		got := strings.ReplaceAll(strings.ReplaceAll(strings.Join(all, " | "), "--config: ", ""), name+":", "")
		if got = strings.TrimSpace(got); got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

// An alias costs what the text costs that it stands for.
func TestConfig_aliasBomb(t *testing.T) {
	text := "listen: &a [x, x, x, x, x, x, x, x, x]\n"
	for i := range 20 {
		text += fmt.Sprintf("k%d: &%c [%s]\n", i, 'b'+i, strings.TrimSuffix(strings.Repeat("*"+string(rune('a'+i))+", ", 9), ", "))
	}
	text += "columns: [*u]\n"
	_, _, err := parseLine(t, "serve", "x.py", "--config", configFile(t, text))
	f, ok := errors.AsType[*failure](err)
	if !ok || len(f.also) != 20 || !strings.HasSuffix(f.also[19].Error(), "columns: wanted texts, got a list") {
		t.Errorf("error %v", err)
	}
}

// Depth and size are bounded, by the library and by us.
func TestConfig_bounds(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("[", 20000):                        "no YAML: exceeded max depth of 10000",
		"# " + strings.Repeat("x", configBytesMax) + "\n": "wanted a file of at most 1.0 MiB",
	} {
		_, _, err := parseLine(t, "serve", "x.py", "--config", configFile(t, text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// What is printed is bounded too.
func TestConfig_manyErrors(t *testing.T) {
	text := strings.Repeat("x", 1000) + ": 1\n"
	for i := range 1000 {
		text += fmt.Sprintf("key%d: 1\n", i)
	}
	_, _, err := parseLine(t, "serve", "x.py", "--config", configFile(t, text))
	f, ok := errors.AsType[*failure](err)
	if !ok || len(f.also) != configErrorsMax || f.also[configErrorsMax-1].Error() != "and 951 more errors" || len(f.Error()) > 300 {
		t.Errorf("error %v", err)
	}
}

// What is right with a file.
func TestConfig_right(t *testing.T) {
	c, file, err := parseLine(t, "serve", "--config", configFile(t, `
# One file for every command.
files: [geo.py, pkg.module]
listen: &where [127.0.0.1:0, "unix:/run/a,b.sock"]
http: off
max_message_bytes: 64MiB
serve: *where
args: '[[1, 2]]'
functions:
  geo.score: &quick { timeout: 2s, on_error: null }
  clean: { on_error: "null" }
  strict: { on_error: fail, concurrency: 4 }
  tilde: { on_error: ~ }
  other: *quick
  none: {}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%v %s %d %v", c.Serve.Listen, c.Serve.HTTP, c.Serve.MaxMessageBytes, file.files); got !=
		"[127.0.0.1:0 unix:/run/a,b.sock] off 67108864 [geo.py pkg.module]" {
		t.Error(got)
	}
	quick := pool.Override{Timeout: 2 * time.Second, OnError: udfgate.OnErrorNull}
	want := map[string]pool.Override{
		"geo.score": quick, "clean": {OnError: udfgate.OnErrorNull}, "strict": {OnError: udfgate.OnErrorFail, Concurrency: 4},
		"tilde": {OnError: udfgate.OnErrorNull}, "other": quick, "none": {},
	}
	for _, name := range []string{"geo.score", "other"} {
		o := want[name]
		o.TimeoutName = "timeout of " + name + " in " + file.name
		want[name] = o
	}
	if !reflect.DeepEqual(file.overrides(), want) {
		t.Errorf("functions %+v", file.overrides())
	}
	for _, empty := range []string{"", "# nothing\n", "---\n", "~\n"} {
		if _, _, err := parseLine(t, "serve", "x.py", "--config", configFile(t, empty)); err != nil {
			t.Errorf("%q: %v", empty, err)
		}
	}
	// The text is demo's flag of the same name.
	if c, _, err := parseLine(t, "demo", "--config", configFile(t, "functions: mine.py\n")); err != nil || c.Demo.Functions != "mine.py" {
		t.Errorf("%q, %v", c.Demo.Functions, err)
	}
}

// The example of the page is a file that is taken.
func TestConfig_example(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
	if example == nil {
		t.Fatal("docs/configuration.md has no example")
	}
	if _, _, err := parseLine(t, "serve", "--config", configFile(t, string(example[1]))); err != nil {
		t.Error(err)
	}
}

// A value out of its bound is told with where it came from.
func TestFrom(t *testing.T) {
	name := configFile(t, "workers: 2\ntimeout: 0s\n")
	check := func(want string, args ...string) {
		t.Helper()
		if _, _, err := parseLine(t, append(args, "--config", name)...); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	check("serve: --timeout: wanted more than 0s, got 0s (from "+name+":2:10)", "serve", "x.py")
	check("serve: --timeout: wanted more than 0s, got -1s", "serve", "x.py", "--timeout=-1s")
	t.Setenv("UDFGATE_TIMEOUT", "-2s")
	check(`serve: --timeout: wanted more than 0s, got -2s (from envar UDFGATE_TIMEOUT="-2s")`, "serve", "x.py")
}

func TestParseDebug(t *testing.T) {
	for text, want := range map[string]debugSettings{
		"":                           {},
		"bill=off":                   {billOff: true},
		"bill=on, arenas=private,":   {privateArenas: true},
		"arenas=shared":              {},
		"arenas=private,bill=off":    {billOff: true, privateArenas: true},
		"bill=off,bill=on,bill=off,": {billOff: true},
	} {
		want.text = text
		if got, err := parseDebug(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"bil=off":            `UDFGATE_DEBUG: unknown name "bil", did you mean "bill"?`,
		"bill":               `UDFGATE_DEBUG: bill: wanted on or off, got ""`,
		"arenas=privat":      `UDFGATE_DEBUG: arenas: wanted shared or private, got "privat"`,
		"bill=off,something": `UDFGATE_DEBUG: unknown name "something", the nearest is "arenas"`,
	} {
		if _, err := parseDebug(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
