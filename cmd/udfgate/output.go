package main

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/udfgate/udfgate/internal/tabular"
)

// outputFile is the file that --output names. It is written under another name in
// the same folder, so that the name never stands for half a file. With the name
// "-" it is stdout, which takes the rows as they come.
type outputFile struct {
	name   string
	format tabular.Format
	gzip   bool
	adds   int // columns behind those of the input

	stdout io.Writer // nil for a file
	path   string    // name, symbolic links followed
	old    fs.FileInfo
	file   *os.File
	buf    *bufio.Writer
	writer *tabular.Writer
	rename bool
}

// newOutputFile checks the name. Nothing is made yet. format is what the file
// is, empty if the name says it. source is the input's name, which the output
// may not be; "-" and the empty one are no file.
func newOutputFile(name string, format tabular.Format, source string, stdout io.Writer) (*outputFile, error) {
	what := "--output " + name
	t := &outputFile{name: name, path: name, format: format}
	if name == "-" {
		if format == "" {
			return nil, usage(what, errors.New("wanted --output-format too, as stdout has no name that says it"), "without --output the rows go to stdout as a table, with --json as JSON")
		}
		t.name, t.stdout = "stdout", stdout
		return t, nil
	}
	var err error
	if t.format, t.gzip, err = formatOf(name, format); err != nil {
		return nil, usage(what, err, "--output-format says what it is to be, whatever its name")
	}
	if t.old, err = os.Stat(name); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, usage(what, cause(err), "")
		}
		t.path, err = linked(name)
		return t, usageOf(what, err)
	}
	if t.old.IsDir() {
		return nil, usage(what, errors.New("wanted a file, got a folder"), "")
	}
	if in, err := os.Stat(source); err == nil && os.SameFile(in, t.old) {
		return nil, usage(what, errors.New("it is the file that --input reads"), "")
	}
	t.path, err = filepath.EvalSymlinks(name)
	return t, usageOf(what, err)
}

// formatOf is the format asked for, or else the one of the name, and whether
// the file is to be packed.
func formatOf(name string, asked tabular.Format) (format tabular.Format, gzipped bool, err error) {
	if asked == "" {
		return tabular.FormatOf(name)
	}
	if gzipped = strings.HasSuffix(name, ".gz"); gzipped && asked != tabular.FormatCSV && asked != tabular.FormatJSONL {
		return "", false, fmt.Errorf("%s files are packed inside, not as a whole: .gz goes with csv and jsonl", asked)
	}
	return asked, gzipped, nil
}

// linksMax is how many symbolic links may lead to one another, as in Linux.
const linksMax = 40

// linked is where the name of a file that does not exist leads to: it may be
// that of a symbolic link.
func linked(name string) (string, error) {
	for range linksMax {
		to, err := os.Readlink(name)
		if err != nil { // no link: there is nothing, or a folder is missing, which open says
			return name, nil
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(name), to)
		}
		name = to
	}
	return "", fmt.Errorf("more than %d symbolic links", linksMax)
}

// open makes the file and begins it with the input's columns.
func (t *outputFile) open(kept *arrow.Schema, adds []arrow.Field) error {
	what := "--output " + t.name
	var err error
	if t.stdout != nil {
		return t.begin(t.stdout, kept, adds)
	}
	if t.old != nil && !t.old.Mode().IsRegular() { // a pipe or a device: nothing can take its place
		t.file, err = os.OpenFile(t.path, os.O_WRONLY, 0)
	} else {
		hidden := filepath.Join(filepath.Dir(t.path), "."+filepath.Base(t.path)+"."+rand.Text()[:8])
		t.file, err = os.OpenFile(hidden, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		t.rename = err == nil
	}
	if err != nil {
		return usage(what, cause(err), "")
	}
	return t.begin(t.file, kept, adds)
}

func (t *outputFile) begin(w io.Writer, kept *arrow.Schema, adds []arrow.Field) (err error) {
	t.buf = bufio.NewWriterSize(w, 1<<20)
	t.adds = len(adds)
	t.writer, err = tabular.NewWriter(t.buf, t.format, t.gzip, kept, adds)
	return usageOf("--output "+t.name, err)
}

func (t *outputFile) each(out *reply) error {
	if adds := out.columns()[:t.adds]; out.rows == nil {
		return t.named(t.writer.Write(out.in, adds))
	}
	return t.named(t.writer.WriteTable(out.in, out.rows.Int32Values(), out.columns()[:t.adds]))
}

// end completes the file and gives it its name.
func (t *outputFile) end() error {
	if err := t.writer.Close(); err != nil {
		return t.named(err)
	}
	err := t.buf.Flush()
	if t.file == nil {
		return t.named(err)
	}
	if t.rename && err == nil { // a machine that stops must not leave the name to an empty file
		err = t.file.Sync()
	}
	if t.rename && t.old != nil && err == nil { // it takes the place of a file that others may read
		err = t.file.Chmod(t.old.Mode().Perm())
	}
	if err = cmp.Or(err, t.file.Close()); err != nil { // the first is the cause
		return t.named(err)
	}
	if t.rename {
		if err := os.Rename(t.file.Name(), t.path); err != nil {
			return t.named(err)
		}
		t.rename = false
	}
	return nil
}

// discard takes away what a call that failed has written.
func (t *outputFile) discard() {
	if t.file == nil {
		return
	}
	_ = t.file.Close() // closed already after a good end
	if t.rename {
		_ = os.Remove(t.file.Name()) // what cannot be removed is hidden and has no name
	}
}

func (t *outputFile) named(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err
	}
	return &failure{code: exitFailed, what: t.name, err: err}
}

// failures counts the rows that failed where the call goes on.
type failures struct {
	told          bool // their texts came
	failed, first int64
	text          string // of the first
}

// each counts in the errors of an answer: a row of the input has one at most.
func (f *failures) each(out *reply) {
	f.told = true
	for i := range out.errors.Len() {
		if out.errors.IsNull(i) {
			continue
		}
		if f.failed == 0 {
			f.first, f.text = out.row(i), out.errors.Value(i)
		}
		f.failed++
	}
}

// line is what a user has to know, empty if no row failed.
func (f *failures) line(function string, rows int64) string {
	if f.failed == 0 {
		return ""
	}
	s := fmt.Sprintf("udfgate: %s: %d of %d rows failed", function, f.failed, rows)
	if f.text != "" {
		s += fmt.Sprintf("; the first is row %d: %s", f.first, oneLine(f.text))
	}
	return s + "\n"
}
