package tabular

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// Format is a kind of file.
type Format string

// The formats. An Arrow file and an Arrow stream are told apart by their first
// bytes when they are read.
const (
	FormatCSV         Format = "csv"
	FormatJSONL       Format = "jsonl"
	FormatArrow       Format = "arrow"
	FormatArrowStream Format = "arrows" // to be written
	FormatParquet     Format = "parquet"
)

// Extensions lists those that FormatOf knows, for errors and help.
const Extensions = ".parquet, .arrow, .arrows, .feather, .jsonl, .ndjson or .csv (.gz on the last three)"

// FormatOf tells a file's format from its name. gzipped is true for the text
// formats with .gz behind their extension.
func FormatOf(name string) (f Format, gzipped bool, err error) {
	base, gzipped := strings.CutSuffix(name, ".gz")
	switch ext := filepath.Ext(base); ext {
	case ".csv":
		return FormatCSV, gzipped, nil
	case ".jsonl", ".ndjson":
		return FormatJSONL, gzipped, nil
	case ".parquet":
		f = FormatParquet
	case ".arrow", ".feather":
		f = FormatArrow
	case ".arrows":
		f = FormatArrowStream
	default:
		return "", false, fmt.Errorf("wanted %s, got %q", Extensions, filepath.Ext(name))
	}
	if gzipped {
		return "", false, fmt.Errorf("%s files are packed inside, not as a whole: .gz goes with .csv and .jsonl", filepath.Ext(base))
	}
	return f, gzipped, nil
}

// Open reads a file's head and returns its rows, the columns for fields chosen
// as the options say. r is not closed.
//
// # Errors
//
// A file that is not what its format says, or whose columns do not fit fields.
func Open(r io.Reader, f Format, fields []arrow.Field, o Options) (Source, error) {
	if f == FormatParquet {
		// Stdin that comes from a pipe is a file to Go too.
		if file, ok := r.(*os.File); ok && o.Size > 0 {
			return newParquet(file, fields, o)
		}
		return nil, errNotSeekable
	}
	if f == FormatArrow || f == FormatArrowStream {
		return newIPC(r, fields, o)
	}
	if f == FormatJSONL {
		return NewJSONL(r, fields, o)
	}
	return NewCSV(r, fields, o)
}

// Sniff tells the format of what r holds by its first bytes: those of Arrow and
// Parquet, the first bracket of JSON; everything else is CSV. gzip is taken off.
// It waits for no more bytes than it needs to decide. The rows have to be read
// from the reader that it returns.
func Sniff(r io.Reader) (Format, io.Reader, error) {
	in, err := unpacked(r, "")
	if err != nil {
		return "", nil, err
	}
	for n := 1; ; n++ {
		head, err := in.Peek(n)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", nil, cause(err)
		}
		more := false
		for magic, format := range magics {
			switch {
			case bytes.HasPrefix(head, []byte(magic)):
				return format, in, nil
			case strings.HasPrefix(magic, string(head)):
				more = true
			}
		}
		text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte(mark)), " \t\r\n")
		switch {
		case len(text) > 0 && (text[0] == '{' || text[0] == '['):
			return FormatJSONL, in, nil
		case err != nil, n >= sniffMax, len(text) > 0 && !more && !strings.HasPrefix(mark, string(head)):
			return FormatCSV, in, nil
		}
	}
}

// magics are the first bytes of formats that are no text.
var magics = map[string]Format{
	string(magicFile): FormatArrow, string(magicMessage): FormatArrow, string(magicFeather): FormatArrow, "PAR1": FormatParquet,
}

// sniffMax bounds the blank bytes before JSON.
const sniffMax = 4 << 10

// mark is the byte order mark of UTF-8.
const mark = "\xef\xbb\xbf"

// errNotSeekable is what a pipe of Parquet gets.
var errNotSeekable = errors.New("parquet has its index at the end, so it is read from a file, not from a pipe")

// readBytes is the buffer in front of the file.
const readBytes = 256 << 10

// meter counts what is read of a file.
type meter struct {
	r       io.Reader
	n, size int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.n += int64(n)
	return n, err
}

func (m *meter) share() float64 { return share(m.n, m.size) }

func share(n, of int64) float64 {
	if of <= 0 {
		return 0
	}
	return min(1, float64(n)/float64(of))
}

// unpacked is what a file holds, with its gzip taken off.
func unpacked(r io.Reader, file string) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, readBytes)
	magic, err := in.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, cause(err)
	}
	zipped := bytes.Equal(magic, []byte{0x1f, 0x8b})
	switch named := strings.HasSuffix(file, ".gz"); {
	case named && !zipped:
		return nil, errors.New("wanted gzip, as the name says; the file is not gzip")
	case !named && zipped && file != "":
		return nil, fmt.Errorf("wanted text, as the name says; the file is gzip (name it %s.gz)", filepath.Ext(file))
	case !zipped:
		return in, nil
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, badGzip(err)
	}
	return bufio.NewReaderSize(unzip{z}, readBytes), nil
}

// unzip says of the errors of gzip whose they are.
type unzip struct{ z *gzip.Reader }

func (u unzip) Read(p []byte) (int, error) {
	n, err := u.z.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = badGzip(err)
	}
	return n, err
}

func badGzip(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the gzip file is cut short")
	}
	return fmt.Errorf("the gzip file is damaged: %w", err)
}

// cause strips what a path error repeats: the caller names the file.
func cause(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}
