package tabular

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// cell is one CSV field. Quoted tells an empty text from no value at all,
// which encoding/csv cannot; that is why this file exists.
type cell struct {
	text   []byte // valid until the next record
	quoted bool
}

// scanner reads RFC 4180 records: commas, double quotes, and lines that end in
// \n, \r\n or a bare \r, as old spreadsheets write. It keeps one record in memory.
type scanner struct {
	r     *bufio.Reader
	line  int  // of the record's first line, from 1
	next  int  // line at which the next record begins
	bare  bool // the last line ended in a bare \r, so the next one likely does
	buf   []byte
	ends  []int
	quote []bool
	cells []cell
}

// recordBytesMax bounds one record: an opening quote that nothing closes would
// otherwise draw the whole file into memory.
const recordBytesMax = 64 << 20

func newScanner(r *bufio.Reader) *scanner {
	if mark, err := r.Peek(3); err == nil && bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = r.Discard(3) // what Peek returned is buffered, so this cannot fail
	}
	return &scanner{r: r, next: 1}
}

// record reads the next record; io.EOF at the end. An empty line is a record
// of one empty field.
func (s *scanner) record() ([]cell, error) {
	s.line = s.next
	if s.plain() {
		return s.cells, nil
	}
	s.buf, s.ends, s.quote = s.buf[:0], s.ends[:0], s.quote[:0]
	for {
		more, err := s.field()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	s.cells = s.cells[:0]
	from := 0
	for i, to := range s.ends {
		s.cells = append(s.cells, cell{s.buf[from:to], s.quote[i]})
		from = to
	}
	return s.cells, nil
}

// plain takes a record that lies in the buffer whole and has no quote, which
// is nearly all of them, without looking at it byte by byte. It is false if
// there is no such record; then nothing has been read.
func (s *scanner) plain() bool {
	ahead, _ := s.r.Peek(s.r.Buffered()) // never more than there is: no error
	end, other := byte('\n'), byte('\r')
	if s.bare {
		end, other = other, end
	}
	n := bytes.IndexByte(ahead, end)
	if n < 0 || bytes.IndexByte(ahead[:n], '"') >= 0 {
		return false
	}
	line := ahead[:n]
	if !s.bare {
		line = bytes.TrimSuffix(line, []byte("\r"))
	} else if n+1 == len(ahead) || ahead[n+1] == '\n' {
		return false // half of a \r\n, or it may be
	}
	if bytes.IndexByte(line, other) >= 0 {
		return false
	}
	s.cells = s.cells[:0]
	for {
		at := bytes.IndexByte(line, ',')
		if at < 0 {
			break
		}
		s.cells = append(s.cells, cell{text: line[:at]})
		line = line[at+1:]
	}
	s.cells = append(s.cells, cell{text: line})
	s.next++
	_, _ = s.r.Discard(n + 1) // buffered: cannot fail, and moves nothing
	return true
}

// field reads one field and reports whether another follows in the record.
func (s *scanner) field() (more bool, err error) {
	c, err := s.r.ReadByte()
	if err != nil {
		return false, s.atEnd(err)
	}
	if c == '"' {
		return s.quoted()
	}
	for {
		switch c {
		case ',':
			s.close(false)
			return true, nil
		case '\n', '\r':
			s.endLine(c)
			s.close(false)
			return false, nil
		case '"':
			return false, fmt.Errorf("line %d: a quote within a field that does not begin with one", s.next)
		}
		if err := s.put(c); err != nil {
			return false, err
		}
		if c, err = s.r.ReadByte(); err != nil {
			if !errors.Is(err, io.EOF) {
				return false, err
			}
			s.close(false)
			return false, nil
		}
	}
}

// quoted reads on after an opening quote.
func (s *scanner) quoted() (more bool, err error) {
	for {
		c, err := s.r.ReadByte()
		if err != nil {
			return false, s.unclosed(err)
		}
		if c == '"' {
			switch c, err = s.r.ReadByte(); {
			case errors.Is(err, io.EOF):
				s.close(true)
				return false, nil
			case err != nil:
				return false, err
			case c == '"': // a doubled quote stands for one
			default:
				return s.afterQuote(c)
			}
		}
		if n := len(s.buf); c == '\r' || c == '\n' && (n == s.start() || s.buf[n-1] != '\r') {
			s.next++
		}
		if err := s.put(c); err != nil {
			return false, err
		}
	}
}

// afterQuote takes what may stand behind a closing quote.
func (s *scanner) afterQuote(c byte) (more bool, err error) {
	switch c {
	case ',':
		s.close(true)
		return true, nil
	case '\n', '\r':
		s.endLine(c)
		s.close(true)
		return false, nil
	}
	return false, fmt.Errorf("line %d: wanted a comma or the end of the line after a closing quote, got %q", s.next, c)
}

// endLine takes the rest of a line end that begins with c.
func (s *scanner) endLine(c byte) {
	s.next++
	s.bare = false
	if c == '\n' {
		return
	}
	// An error of Peek is met again by the next read.
	if after, _ := s.r.Peek(1); len(after) == 1 && after[0] == '\n' {
		_, _ = s.r.Discard(1)
		return
	}
	s.bare = true
}

func (s *scanner) put(c byte) error {
	if len(s.buf) >= recordBytesMax {
		return fmt.Errorf("line %d: the record is longer than %d MiB", s.line, recordBytesMax>>20)
	}
	s.buf = append(s.buf, c)
	return nil
}

func (s *scanner) start() int {
	if len(s.ends) == 0 {
		return 0
	}
	return s.ends[len(s.ends)-1]
}

func (s *scanner) close(quoted bool) {
	s.ends = append(s.ends, len(s.buf))
	s.quote = append(s.quote, quoted)
}

// atEnd is the end of input where a field would begin: the end of the file if
// the record is empty so far, else one last empty field.
func (s *scanner) atEnd(err error) error {
	if !errors.Is(err, io.EOF) || len(s.ends) == 0 {
		return err
	}
	s.close(false)
	return nil
}

func (s *scanner) unclosed(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("line %d: the record has a quote that nothing closes", s.line)
	}
	return err
}
