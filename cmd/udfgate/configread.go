package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/udfgate/udfgate"
	"go.yaml.in/yaml/v4"
)

// The options of a function that the file takes, and those that it will.
var (
	optionKeys        = []string{"timeout", "on_error", "concurrency"}
	optionKeysUnbuilt = []string{"elementwise", "coalesce"}
)

// reader walks the file of --config. It goes no deeper than the keys that it
// knows, so an alias costs no more than the text that it stands for.
type reader struct {
	config *config
	flags  map[string][]*kong.Flag
	wrong  []error
}

func (r *reader) fail(node *yaml.Node, format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Errorf("%s: %w", r.at(node), fmt.Errorf(format, args...)))
}

func (r *reader) at(node *yaml.Node) place { return place{r.config.name, node.Line, node.Column} }

// target is what an alias stands for. The composer refuses aliases of aliases.
func target(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func (r *reader) document(root *yaml.Node) {
	if root == nil || root.Tag == "!!null" {
		return // comments only
	}
	known := slices.Concat(slices.Collect(maps.Keys(r.flags)), []string{filesKey, functionsKey, configKey})
	r.entries(root, "", known, keysUnbuilt, r.setting)
}

// entries calls each for the known keys of a mapping. section is its name, for
// errors.
func (r *reader) entries(node *yaml.Node, section string, known, unbuilt []string, each func(key string, at, value *yaml.Node)) {
	if section != "" {
		section += ": "
	}
	if node.Kind != yaml.MappingNode {
		r.fail(node, "%swanted keys and values, got %s", section, got(node))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		at, value := node.Content[i], node.Content[i+1]
		key := at.Value
		line, twice := seen[key]
		switch {
		case at.Kind != yaml.ScalarNode:
			r.fail(at, "%swanted a name as the key, got %s", section, got(at))
		case at.Tag == "!!merge":
			r.fail(at, "%s<< is not taken: an alias stands for a whole value", section)
		case twice:
			r.fail(at, "%s%s is set twice, first in line %d", section, brief(key), line)
		case slices.Contains(unbuilt, key):
			r.fail(at, "%s%s is not built yet", section, key)
		case known != nil && !slices.Contains(known, key):
			r.fail(at, "%sunknown key %q%s", section, brief(key), near(key, known))
		default:
			each(key, at, target(value))
		}
		seen[key] = at.Line
	}
}

func (r *reader) setting(key string, at, value *yaml.Node) {
	switch {
	case key == configKey:
		r.fail(at, "%s is not taken: one file does not name another", key)
		return
	case key == filesKey:
		files, err := textList(value)
		if err != nil {
			r.fail(value, "%s: %w", key, err)
		}
		r.config.files = files
		return
	case key == functionsKey && (value.Kind == yaml.MappingNode || len(r.flags[key]) == 0):
		r.entries(value, key, nil, nil, r.function)
		return
	}
	if key == functionsKey && value.Kind == yaml.SequenceNode {
		r.fail(value, "%s: wanted the functions' options by name, such as {add: {timeout: 2s}}, got a list", key)
		return
	}
	for _, flag := range r.flags[key] {
		if _, err := flagValue(flag, value); err != nil {
			r.fail(value, "%s: %w", key, err)
			return // once, not for each command that has the flag
		}
	}
	r.config.nodes[key] = value
}

func (r *reader) function(name string, at, value *yaml.Node) {
	o := functionOptions{name: name, at: r.at(at)}
	section := functionsKey + ": " + brief(name)
	r.entries(value, section, optionKeys, optionKeysUnbuilt, func(key string, _, value *yaml.Node) {
		var err error
		switch key {
		case "timeout":
			o.Timeout, err = limitValue(value)
		case "on_error":
			o.OnError, err = onErrorValue(value)
		case "concurrency":
			o.Concurrency, err = countValue(value)
		}
		if err != nil {
			r.fail(value, "%s: %s: %w", section, key, err)
		}
	})
	r.config.functions = append(r.config.functions, o)
}

func limitValue(node *yaml.Node) (time.Duration, error) {
	d, err := time.ParseDuration(node.Value)
	if node.Kind != yaml.ScalarNode || err != nil || d <= 0 {
		return 0, fmt.Errorf("wanted a time above 0 such as 2s, got %s", got(node))
	}
	return d, nil
}

func countValue(node *yaml.Node) (int, error) {
	n, err := strconv.ParseInt(node.Value, 10, 32)
	if node.Kind != yaml.ScalarNode || node.Tag != "!!int" || err != nil || n < 1 {
		return 0, fmt.Errorf("wanted a whole number from 1 to %d, got %s", math.MaxInt32, got(node))
	}
	return int(n), nil
}

// onErrorValue takes YAML's null and the text for the same: what is written
// bare is the one, quoted it is the other.
func onErrorValue(node *yaml.Node) (udfgate.OnError, error) {
	text := udfgate.OnError(strings.ToLower(node.Value))
	switch {
	case node.Kind != yaml.ScalarNode:
	case node.Tag == "!!null" && text != "":
		return udfgate.OnErrorNull, nil
	case text == udfgate.OnErrorFail || text.KeepsGoing():
		return text, nil
	}
	return "", fmt.Errorf("wanted fail, null or reject, got %s", got(node))
}

// textList is a list of texts; one text is a list of one.
func textList(node *yaml.Node) ([]string, error) {
	items := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		items = node.Content
	}
	texts := []string{}
	for _, item := range items {
		item = target(item)
		if item.Kind != yaml.ScalarNode || item.Tag != "!!str" {
			return nil, fmt.Errorf("wanted texts, got %s", got(item))
		}
		texts = append(texts, item.Value)
	}
	if len(texts) == 0 {
		return nil, errors.New("wanted texts, got an empty list; leave the key out for the default")
	}
	return texts, nil
}

// shape is how a flag's values are written in the file.
type shape struct {
	wanted string
	tags   []string
}

func shapeOf(flag *kong.Flag) shape {
	switch kind := flag.Target.Type(); {
	case flag.Enum != "":
		return shape{"one of " + strings.Join(choices(flag.Value), ", "), []string{"!!str"}}
	case kind == sizeType:
		return shape{"a size such as 256MiB", []string{"!!str", "!!int"}}
	case kind == reflect.TypeFor[time.Duration]():
		return shape{"a time such as 2s", []string{"!!str", "!!int"}}
	case kind.Kind() == reflect.Bool:
		return shape{"true or false", []string{"!!bool"}}
	case kind.Kind() == reflect.String:
		return shape{"a text", []string{"!!str"}}
	case flag.Target.CanFloat():
		return shape{"a number", []string{"!!int", "!!float"}}
	default:
		return shape{"a whole number", []string{"!!int"}}
	}
}

// choices are the values of a flag or argument that takes few; no value at all
// may be one of them to kong, but nobody writes that.
func choices(v *kong.Value) []string {
	return slices.DeleteFunc(v.EnumSlice(), func(s string) bool { return s == "" })
}

// flagValue is a value of the file as kong takes it for the flag.
//
// # Errors
//
// What was wanted and got, for a value that the flag would not take. Bounds
// are the command's to check.
func flagValue(flag *kong.Flag, node *yaml.Node) (any, error) {
	if flag.IsSlice() && flag.Target.Type().Elem().Kind() == reflect.String {
		texts, err := textList(node)
		if err != nil {
			return nil, err
		}
		list := make([]any, len(texts))
		for i, text := range texts {
			list[i] = text
		}
		return list, nil
	}
	if flag.IsSlice() {
		return numberList(flag, node)
	}
	s := shapeOf(flag)
	if onNull := flag.EnumMap()["null"]; onNull && node.Tag == "!!null" && node.Value != "" {
		return "null", nil // as for functions
	}
	if node.Kind != yaml.ScalarNode || !slices.Contains(s.tags, node.Tag) {
		hint := ""
		if node.Kind == yaml.ScalarNode && node.Tag != "!!null" && slices.Equal(s.tags, []string{"!!str"}) {
			hint = "; a text needs quotes here"
		}
		if flag.Name == "http" && node.Value == "false" {
			hint = "; the word for it is off"
		}
		return nil, fmt.Errorf("wanted %s, got %s%s", s.wanted, got(node), hint)
	}
	if flag.Enum != "" && !slices.Contains(choices(flag.Value), node.Value) {
		return nil, fmt.Errorf("wanted %s, got %s", s.wanted, got(node))
	}
	scratch := reflect.New(flag.Target.Type()).Elem()
	scan := kong.Scan().PushTyped(node.Value, kong.FlagValueToken)
	if err := flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value, Scan: scan}, scratch); err != nil {
		return nil, fmt.Errorf("wanted %s, got %s", s.wanted, got(node))
	}
	return node.Value, nil
}

// numberList is a list that is none of texts, as kong splits it.
func numberList(flag *kong.Flag, node *yaml.Node) (any, error) {
	items := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		items = node.Content
	}
	var texts []string
	for _, item := range items {
		item = target(item)
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			return nil, fmt.Errorf("wanted values, got %s", got(item))
		}
		texts = append(texts, item.Value)
	}
	text := strings.Join(texts, string(flag.Tag.Sep))
	scratch := reflect.New(flag.Target.Type()).Elem()
	scan := kong.Scan().PushTyped(text, kong.FlagValueToken)
	if err := flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value, Scan: scan}, scratch); err != nil || text == "" {
		return nil, fmt.Errorf("wanted values of %s, got %s", flag.FormatPlaceHolder(), got(node))
	}
	return text, nil
}
