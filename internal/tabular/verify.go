package tabular

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"
)

// arrow-go takes the lengths in an Arrow header for what they are, and one
// changed byte makes it allocate more than there is, which ends the program. So
// every header is walked here before arrow-go sees it. Reads beyond the header
// panic, and guard makes errors of them.

// Places of what is looked at, in the tables of Arrow's flatbuffers schema.
const (
	messageHeaderType, messageHeader, messageBody                     = 6, 8, 10
	schemaFields, schemaMeta                                          = 6, 8
	fieldTypeID, fieldType, fieldChildren, fieldMeta                  = 8, 10, 14, 16
	footerSchema, footerDictionaries, footerBatches, footerMeta       = 6, 8, 10, 12
	batchNodes, batchBuffers, batchVariadic, dictionaryData, unionIDs = 6, 8, 12, 6, 6
)

const (
	headerSchema, headerDictionary, headerBatch = 1, 2, 3
	typeUnion                                   = 14
	blockBytes                                  = 24 // of a block in a footer
	nestedMax                                   = 64 // levels of fields
)

// headerCheck walks one header.
type headerCheck struct {
	fields int // still allowed: each takes some bytes of the header
}

// checkMessage walks the header of a message and returns how long its body is.
func checkMessage(b []byte) (body int64, err error) {
	err = guard(func() error {
		c := headerCheck{fields: len(b) / 8}
		message := root(b)
		if o := message.Offset(messageBody); o != 0 {
			body = message.GetInt64(message.Pos + flatbuffers.UOffsetT(o))
		}
		if body < 0 {
			return fmt.Errorf("the file is damaged: a body of %d bytes", body)
		}
		kind := message.Offset(messageHeaderType)
		header, ok := child(message, messageHeader)
		if kind == 0 || !ok {
			return errors.New("the file is damaged: a message without a header")
		}
		switch message.GetByte(message.Pos + flatbuffers.UOffsetT(kind)) {
		case headerSchema:
			c.schema(header)
		case headerDictionary:
			if batch, ok := child(header, dictionaryData); ok {
				c.batch(batch)
			}
		case headerBatch:
			c.batch(header)
		}
		return nil
	})
	return body, err
}

func root(b []byte) flatbuffers.Table {
	return flatbuffers.Table{Bytes: b, Pos: flatbuffers.GetUOffsetT(b)}
}

func child(t flatbuffers.Table, slot flatbuffers.VOffsetT) (flatbuffers.Table, bool) {
	o := t.Offset(slot)
	if o == 0 {
		return t, false
	}
	return flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(t.Pos + flatbuffers.UOffsetT(o))}, true
}

// vector is the start and length of a vector that lies within the header.
func vector(t flatbuffers.Table, slot flatbuffers.VOffsetT, width int) (start flatbuffers.UOffsetT, n int) {
	o := t.Offset(slot)
	if o == 0 {
		return 0, 0
	}
	start, n = t.Vector(flatbuffers.UOffsetT(o)), t.VectorLen(flatbuffers.UOffsetT(o))
	if n < 0 || int64(start)+int64(n)*int64(width) > int64(len(t.Bytes)) {
		panic(fmt.Sprintf("a list of %d in a header of %d bytes", n, len(t.Bytes)))
	}
	return start, n
}

func (c *headerCheck) schema(t flatbuffers.Table) {
	c.children(t, schemaFields, 0)
	c.meta(t, schemaMeta)
}

// children walks fields. Many of them may lie in the same place, so that a
// small header could have any number.
func (c *headerCheck) children(t flatbuffers.Table, slot flatbuffers.VOffsetT, depth int) {
	if depth > nestedMax {
		panic(fmt.Sprintf("types are nested more than %d deep", nestedMax))
	}
	start, n := vector(t, slot, flatbuffers.SizeUOffsetT)
	for i := range n {
		if c.fields--; c.fields < 0 {
			panic("more fields than the header has room for")
		}
		field := flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(start + flatbuffers.UOffsetT(i*flatbuffers.SizeUOffsetT))}
		c.meta(field, fieldMeta)
		if o := field.Offset(fieldTypeID); o != 0 && field.GetByte(field.Pos+flatbuffers.UOffsetT(o)) == typeUnion {
			if union, ok := child(field, fieldType); ok {
				vector(union, unionIDs, 4)
			}
		}
		c.children(field, fieldChildren, depth+1)
	}
}

func (c *headerCheck) meta(t flatbuffers.Table, slot flatbuffers.VOffsetT) {
	_, n := vector(t, slot, flatbuffers.SizeUOffsetT)
	if c.fields -= n; c.fields < 0 {
		panic("more metadata than the header has room for")
	}
}

func (*headerCheck) batch(t flatbuffers.Table) {
	vector(t, batchNodes, 16)
	_, buffers := vector(t, batchBuffers, 16)
	start, n := vector(t, batchVariadic, 8)
	for i := range n {
		if v := t.GetInt64(start + flatbuffers.UOffsetT(8*i)); v < 0 || v > int64(buffers) {
			panic(fmt.Sprintf("%d buffers of a view, and %d in all", v, buffers))
		}
	}
}

var continuation = []byte{0xff, 0xff, 0xff, 0xff}

// checkFramed walks the header of a message with its length in front.
func checkFramed(b []byte) error {
	b = bytes.TrimPrefix(b, continuation)
	if len(b) < 4 {
		return io.ErrUnexpectedEOF
	}
	n := binary.LittleEndian.Uint32(b)
	if int64(n) > int64(len(b)-4) {
		return io.ErrUnexpectedEOF
	}
	_, err := checkMessage(b[4 : 4+n])
	return err
}

// checkStored walks the Arrow schema that Parquet files have in their metadata.
func checkStored(text string) error {
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return fmt.Errorf("its ARROW:schema: %w", err)
	}
	if err := checkFramed(b); err != nil {
		return fmt.Errorf("its ARROW:schema: %w", err)
	}
	return nil
}

// checkedStream is an Arrow stream whose headers have been walked before they
// are read. At the end of the stream it stands right behind it.
type checkedStream struct {
	r       io.Reader
	pending []byte // of the header
	body    int64  // bytes that follow it
	ended   bool
}

func (s *checkedStream) Read(p []byte) (int, error) {
	if len(s.pending) == 0 && s.body == 0 {
		if s.ended {
			return 0, io.EOF
		}
		if err := s.header(); err != nil {
			return 0, err
		}
	}
	if len(s.pending) > 0 {
		n := copy(p, s.pending)
		s.pending = s.pending[n:]
		return n, nil
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.body)])
	s.body -= int64(n)
	return n, err
}

// header reads the next one. An end of the file is an end of the stream only
// where a header would begin.
func (s *checkedStream) header() error {
	head := make([]byte, 4, 8)
	if _, err := io.ReadFull(s.r, head); err != nil {
		return err
	}
	if bytes.Equal(head, continuation) {
		head = head[:8]
		if _, err := io.ReadFull(s.r, head[4:]); err != nil {
			return unexpected(err)
		}
	}
	n := int64(binary.LittleEndian.Uint32(head[len(head)-4:]))
	if n == 0 {
		s.pending, s.ended = head, true
		return nil
	}
	if n > recordBytesMax {
		return fmt.Errorf("the file is damaged: a header of %d bytes, and at most %d MiB are taken", n, recordBytesMax>>20)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(s.r, b); err != nil {
		return unexpected(err)
	}
	var err error
	s.body, err = checkMessage(b)
	s.pending = append(head, b...)
	return err
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// checkFooter walks the footer of an Arrow file and the headers of its
// dictionaries, and returns where those of its record batches are.
func checkFooter(r io.ReaderAt, size int64) (batches []block, err error) {
	tail := make([]byte, 10)
	if size < 20 {
		return nil, io.ErrUnexpectedEOF
	}
	if _, err := r.ReadAt(tail, size-10); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(tail))
	if !bytes.Equal(tail[4:], magicFile) || n <= 0 || n > size-10 || n > recordBytesMax {
		return nil, errors.New("the file is cut short: it has no footer")
	}
	b := make([]byte, n)
	if _, err := r.ReadAt(b, size-10-n); err != nil {
		return nil, err
	}
	err = guard(func() error {
		c := headerCheck{fields: len(b) / 8}
		footer := root(b)
		schema, ok := child(footer, footerSchema)
		if !ok {
			return errors.New("the file is damaged: it has no schema")
		}
		c.schema(schema)
		c.meta(footer, footerMeta)
		for _, d := range blocks(footer, footerDictionaries) {
			if err := d.check(r, size); err != nil {
				return err
			}
		}
		batches = blocks(footer, footerBatches)
		return nil
	})
	return batches, err
}

// block is where a message lies in an Arrow file.
type block struct{ offset, header int64 }

func blocks(footer flatbuffers.Table, slot flatbuffers.VOffsetT) []block {
	start, n := vector(footer, slot, blockBytes)
	out := make([]block, n)
	for i := range out {
		at := start + flatbuffers.UOffsetT(i*blockBytes)
		out[i] = block{footer.GetInt64(at), int64(footer.GetInt32(at + 8))}
	}
	return out
}

// check walks the header of the message.
func (b block) check(r io.ReaderAt, size int64) error {
	if b.offset < 0 || b.header < 0 || b.header > recordBytesMax || b.offset > size-b.header {
		return fmt.Errorf("the file is damaged: a header of %d bytes at byte %d, in a file of %d", b.header, b.offset, size)
	}
	header := make([]byte, b.header)
	if _, err := r.ReadAt(header, b.offset); err != nil {
		return unexpected(err)
	}
	return checkFramed(header)
}
