package doccheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

const root = "../.." // of the repository, seen from this package

// notOurs are folders whose pages nobody here writes.
var notOurs = []string{".git", ".venv", ".data", "bin", ".pytest_cache", ".ruff_cache"}

var (
	metricName = regexp.MustCompile(`\budfgate_[a-z0-9_]+\b`)
	// of a histogram: what Prometheus adds to the name.
	histogramPart = regexp.MustCompile(`_(bucket|sum|count)$`)
	flagRow       = regexp.MustCompile("^\\| `--([a-z0-9-]+)` \\|")
	variableName  = regexp.MustCompile(`\bUDFGATE_[A-Z_]+\b`)
	heading       = regexp.MustCompile(`(?m)^(#{1,6}) +(.+?) *$`)
	fence         = regexp.MustCompile("(?ms)^(```|~~~).*?^(```|~~~)$")
	codeSpan      = regexp.MustCompile("`[^`\n]*`")
	inlineLink    = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)`)
	namedLink     = regexp.MustCompile(`(?m)^\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)`)
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// parse reads the sources of a folder or one file, tests left out.
func parse(t *testing.T, name string) []*ast.File {
	t.Helper()
	name = filepath.Join(root, filepath.FromSlash(name))
	files := []string{name}
	if filepath.Ext(name) != ".go" {
		var err error
		if files, err = filepath.Glob(filepath.Join(name, "*.go")); err != nil {
			t.Fatal(err)
		}
	}
	var out []*ast.File
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	if len(out) == 0 {
		t.Fatalf("%s: no sources: has it moved?", name)
	}
	return out
}

func unquote(lit *ast.BasicLit) string {
	if lit == nil || lit.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return text
}

// structs are the struct types that files declare, by name.
func structs(files []*ast.File) map[string]*ast.StructType {
	found := map[string]*ast.StructType{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					found[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	return found
}

func typeName(e ast.Expr) string {
	if ident, ok := e.(*ast.Ident); ok {
		return ident.Name
	}
	return ""
}

// Every metric is in docs/metrics.md, and every metric there is one.
func TestMetrics(t *testing.T) {
	page := map[string]bool{}
	for _, name := range metricName.FindAllString(read(t, "docs/metrics.md"), -1) {
		page[name] = true
	}
	code := map[string]bool{}
	for _, f := range parse(t, "internal/metrics") {
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				if text := unquote(lit); text != "" && metricName.FindString(text) == text {
					code[text] = true
				}
			}
			return true
		})
	}
	if len(code) == 0 {
		t.Fatal("internal/metrics names no metric: has it moved?")
	}
	for name := range code {
		if !page[name] {
			t.Errorf("docs/metrics.md: %s is missing", name)
		}
	}
	for name := range page {
		if !code[name] && !code[histogramPart.ReplaceAllString(name, "")] {
			t.Errorf("docs/metrics.md: %s is no metric", name)
		}
	}
}

// Every reason has a heading of its own in docs/errors.md: some of them are
// names of gRPC codes too, so that the word alone would prove nothing.
func TestReasons(t *testing.T) {
	headings := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(read(t, "docs/errors.md"), -1) {
		headings[m[2]] = true
	}
	found := 0
	for _, f := range parse(t, "error.go") {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || typeName(spec.Type) != "Reason" {
				return true
			}
			for _, v := range spec.Values {
				lit, _ := v.(*ast.BasicLit)
				found++
				if reason := unquote(lit); !headings[reason] {
					t.Errorf("docs/errors.md: no heading for %s", reason)
				}
			}
			return true
		})
	}
	if found == 0 {
		t.Fatal("error.go has no reasons: have they moved?")
	}
}

// Every key of the bill is in docs/bill.md, those of work as `work.key`.
func TestBillKeys(t *testing.T) {
	page, types := read(t, "docs/bill.md"), structs(parse(t, "bill.go"))
	if types["Bill"] == nil {
		t.Fatal("bill.go has no Bill: has it moved?")
	}
	var check func(s *ast.StructType, prefix string)
	check = func(s *ast.StructType, prefix string) {
		for _, field := range s.Fields.List {
			key, _, _ := strings.Cut(reflect.StructTag(unquote(field.Tag)).Get("json"), ",")
			if key == "" || key == "-" {
				continue
			}
			if !strings.Contains(page, "`"+prefix+key+"`") {
				t.Errorf("docs/bill.md: `%s%s` is missing", prefix, key)
			}
			if inner := types[typeName(field.Type)]; inner != nil {
				check(inner, prefix+key+".")
			}
		}
	}
	check(types["Bill"], "")
}

// Every flag has a row in the section of its command in docs/configuration.md,
// with its variable, its key and its default, and every row there is a flag.
func TestFlags(t *testing.T) {
	page, types := read(t, "docs/configuration.md"), structs(parse(t, "cmd/udfgate"))
	if types["commands"] == nil {
		t.Fatal("cmd/udfgate has no commands: have they moved?")
	}
	variables := map[string]bool{}
	for _, command := range types["commands"].Fields.List {
		tag := reflect.StructTag(unquote(command.Tag))
		if len(command.Names) == 0 {
			continue
		}
		name := dashed(command.Names[0].Name)
		title, own := "`udfgate "+name+"`", flags(types, types[typeName(command.Type)])
		if _, ok := tag.Lookup("cmd"); !ok { // a flag of every command
			title, own = "Flags, variables and keys", []flag{{name: name, standard: tag.Get("default"), keyless: true}}
		}
		rows := flagRows(section(page, title))
		for _, f := range own {
			checkFlag(t, title, rows[f.name], f)
			delete(rows, f.name)
			variables[f.variable()] = true
		}
		for flag := range rows {
			t.Errorf("docs/configuration.md: %s: there is no flag --%s", title, flag)
		}
	}
	for _, name := range variableName.FindAllString(page, -1) {
		if !variables[name] && !hasText(t, "cmd/udfgate", name) {
			t.Errorf("docs/configuration.md: %s is no variable", name)
		}
	}
}

func checkFlag(t *testing.T, title, row string, f flag) {
	t.Helper()
	cells := strings.Split(row, "|")
	switch {
	case row == "":
		t.Errorf("docs/configuration.md: %s: --%s is missing", title, f.name)
	case len(cells) < 4 || strings.TrimSpace(cells[2]) != "`"+f.variable()+"`":
		t.Errorf("docs/configuration.md: %s: --%s: wanted the variable `%s`", title, f.name, f.variable())
	case !f.keyless && strings.TrimSpace(cells[3]) != "`"+f.key()+"`":
		t.Errorf("docs/configuration.md: %s: --%s: wanted the key `%s`", title, f.name, f.key())
	case f.standard != "" && !strings.Contains(row, "`"+f.standard+"`"):
		t.Errorf("docs/configuration.md: %s: --%s: wanted the default `%s`", title, f.name, f.standard)
	}
}

// The keys of the file that are no flags, its options of functions, and the
// names of UDFGATE_DEBUG are those of the code, those that are not built too.
func TestKeys(t *testing.T) {
	page := read(t, "docs/configuration.md")
	code := map[string]map[string]bool{"The file": {}, "UDFGATE_DEBUG": {}}
	for name, title := range map[string]string{
		"filesKey": "The file", "functionsKey": "The file", "keysUnbuilt": "The file",
		"optionKeys": "The file", "optionKeysUnbuilt": "The file", "debugNames": "UDFGATE_DEBUG",
	} {
		texts := textsOf(t, "cmd/udfgate", name)
		if len(texts) == 0 {
			t.Fatalf("cmd/udfgate has no %s: has it moved?", name)
		}
		for _, text := range texts {
			code[title][text] = true
		}
	}
	for title, names := range code {
		rows := map[string]bool{}
		for line := range strings.Lines(section(page, title)) {
			if !strings.HasPrefix(line, "| `") {
				continue
			}
			for _, span := range codeSpan.FindAllString(strings.Split(line, "|")[1], -1) {
				rows[strings.Trim(span, "`")] = true
			}
		}
		for name := range names {
			if !rows[name] {
				t.Errorf("docs/configuration.md: %s: %s is missing", title, name)
			}
		}
		for name := range rows {
			if !names[name] {
				t.Errorf("docs/configuration.md: %s: the code has no %s", title, name)
			}
		}
	}
}

// textsOf are the texts that a constant or variable stands for: its own, those
// of a list, or the keys of a map.
func textsOf(t *testing.T, folder, name string) []string {
	t.Helper()
	var texts []string
	for _, f := range parse(t, folder) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || spec.Names[0].Name != name || len(spec.Values) != 1 {
				return true
			}
			elements := spec.Values
			if list, ok := elements[0].(*ast.CompositeLit); ok {
				elements = list.Elts
			}
			for _, e := range elements {
				if pair, ok := e.(*ast.KeyValueExpr); ok {
					e = pair.Key
				}
				if lit, ok := e.(*ast.BasicLit); ok {
					texts = append(texts, unquote(lit))
				}
			}
			return false
		})
	}
	return texts
}

// hasText is whether a text stands in the code of a folder, as a whole.
func hasText(t *testing.T, folder, text string) bool {
	t.Helper()
	found := false
	for _, f := range parse(t, folder) {
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			found = found || ok && unquote(lit) == text
			return !found
		})
	}
	return found
}

type flag struct {
	name, standard string
	keyless        bool // the file of --config does not take it
}

func (f flag) key() string      { return strings.ReplaceAll(f.name, "-", "_") }
func (f flag) variable() string { return "UDFGATE_" + strings.ToUpper(f.key()) }

// flags are those of a command's struct, embedded ones included, as kong names
// them.
func flags(types map[string]*ast.StructType, s *ast.StructType) []flag {
	if s == nil {
		return nil
	}
	var all []flag
	for _, field := range s.Fields.List {
		if len(field.Names) == 0 {
			all = append(all, flags(types, types[typeName(field.Type)])...)
			continue
		}
		tag := reflect.StructTag(unquote(field.Tag))
		if _, positional := tag.Lookup("arg"); positional || !ast.IsExported(field.Names[0].Name) {
			continue
		}
		f := flag{name: tag.Get("name"), standard: tag.Get("default")}
		if f.name == "" {
			f.name = dashed(field.Names[0].Name)
		}
		all = append(all, f)
	}
	return all
}

// dashed is max-queue for MaxQueue and json for JSON.
func dashed(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// section is the text below a heading, up to the next one.
func section(page, title string) string {
	marks := heading.FindAllStringSubmatchIndex(page, -1)
	for i, m := range marks {
		if page[m[4]:m[5]] != title {
			continue
		}
		end := len(page)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		return page[m[1]:end]
	}
	return ""
}

// flagRows are the rows of a table whose first cell is a flag, by its name.
func flagRows(text string) map[string]string {
	rows := map[string]string{}
	for line := range strings.Lines(text) {
		if m := flagRow.FindStringSubmatch(line); m != nil {
			rows[m[1]] = line
		}
	}
	return rows
}

// A relative link of any page leads to a file or folder, and its fragment to a
// heading there.
func TestLinks(t *testing.T) {
	pages := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(notOurs, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".md":
			return nil
		}
		pages++
		checkLinks(t, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages == 0 {
		t.Fatal("no page found")
	}
}

func checkLinks(t *testing.T, page string) {
	t.Helper()
	text := prose(t, page)
	links := append(inlineLink.FindAllStringSubmatch(text, -1), namedLink.FindAllStringSubmatch(text, -1)...)
	for _, m := range links {
		link, err := url.Parse(m[1])
		if err != nil {
			t.Errorf("%s: link %s: %v", page, m[1], err)
			continue
		}
		if link.Scheme != "" || link.Host != "" {
			continue
		}
		target := page
		if link.Path != "" {
			target = filepath.Join(filepath.Dir(page), filepath.FromSlash(link.Path))
		}
		if _, err := os.Stat(target); err != nil {
			t.Errorf("%s: link %s leads nowhere", page, m[1])
			continue
		}
		if link.Fragment != "" && filepath.Ext(target) == ".md" && !slices.Contains(anchors(t, target), link.Fragment) {
			t.Errorf("%s: link %s: %s has no such heading", page, m[1], target)
		}
	}
}

// prose is a page without its code, in which brackets mean something else. The
// text of headings and links stays.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return codeSpan.ReplaceAllString(fence.ReplaceAllString(string(text), ""), "")
}

// anchors are the fragments that GitHub gives to the headings of a page.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	seen := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
		anchor := slug(m[2])
		if n := seen[anchor]; n > 0 {
			all = append(all, anchor+"-"+strconv.Itoa(n))
		} else {
			all = append(all, anchor)
		}
		seen[anchor]++
	}
	return all
}

func slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}
