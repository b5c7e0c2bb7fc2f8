package codec

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"github.com/udfgate/udfgate"
)

// cut divides a message into pieces of n bytes.
func cut(b []byte, n int) (pieces [][]byte) {
	for ; len(b) > n; b = b[n:] {
		pieces = append(pieces, b[:n])
	}
	return append(pieces, b)
}

func body(pieces [][]byte, fd *FlightData) []byte {
	out := make([]byte, fd.Body.Len)
	CopyBody(out, pieces, fd.Body)
	return out
}

// proto spells a message: strings are bytes as they are.
func proto(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case string:
			b = append(b, p...)
		}
	}
	return b
}

func TestParseFlightData(t *testing.T) {
	bodyTag := proto(0xC2, 0x3E)
	full := proto(0x0A, 4, "desc", 0x12, 6, "header", 0x1A, 3, "app", string(bodyTag), 8, "bodybody")
	tests := []struct {
		name                         string
		message                      []byte
		descriptor, header, metadata string
		body                         string
		hasBody                      bool
	}{
		{"empty", nil, "", "", "", "", false},
		{"all fields", full, "desc", "header", "app", "bodybody", true},
		{"body first", proto(string(bodyTag), 4, "body", 0x12, 6, "header"), "", "header", "", "body", true},
		{"empty body", proto(0x12, 1, "h", string(bodyTag), 0), "", "h", "", "", true},
		{"repeated: last wins", proto(0x12, 1, "a", string(bodyTag), 1, "x", 0x12, 2, "bb", string(bodyTag), 2, "yy"), "", "bb", "", "yy", true},
		{"repeated: last is empty", proto(0x1A, 1, "a", 0x1A, 0), "", "", "", "", false},
		{"unknown fields", proto(0x28, 0x80, 0x01, 0x31, "12345678", 0x3A, 2, "xx", 0x45, "1234", 0x12, 1, "h", 0xA0, 0x06, 1), "", "h", "", "", false},
		{"tag in five bytes", proto(0x92, 0x80, 0x80, 0x80, 0x00, 1, "h"), "", "h", "", "", false},
		{"length in ten bytes", proto(0x12, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, "h"), "", "h", "", "", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for n := 1; n <= len(test.message)+1; n++ {
				pieces := cut(test.message, n)
				pieces = append(pieces[:1:1], append([][]byte{{}}, append(pieces[1:], nil)...)...)
				var fd FlightData
				if err := ParseFlightData(pieces, &fd); err != nil {
					t.Fatalf("pieces of %d: %v", n, err)
				}
				if string(fd.Descriptor) != test.descriptor || string(fd.Header) != test.header || string(fd.AppMetadata) != test.metadata {
					t.Fatalf("pieces of %d: got %q, %q, %q", n, fd.Descriptor, fd.Header, fd.AppMetadata)
				}
				if fd.HasBody != test.hasBody || string(body(pieces, &fd)) != test.body {
					t.Fatalf("pieces of %d: got body %v %q, wanted %v %q", n, fd.HasBody, body(pieces, &fd), test.hasBody, test.body)
				}
			}
		})
	}
	var fd FlightData
	if err := ParseFlightData(nil, &fd); err != nil {
		t.Errorf("no pieces: %v", err)
	}
}

func TestParseFlightDataRefuses(t *testing.T) {
	tests := []struct {
		name    string
		message []byte
		want    string
	}{
		{"length past the end", proto(0x12, 2, "h"), "field longer than its message at byte 2 of 3"},
		{"length of 2^63", proto(0x12, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01), "field longer"},
		{"no length", proto(0x12), "truncated varint"},
		{"unfinished tag", proto(0x92), "truncated varint"},
		{"varint of 65 bits", proto(0x28, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02), "more than 64 bits"},
		{"varint of eleven bytes", proto(0x28, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00), "more than 64 bits"},
		{"tag of 33 bits", proto(0x92, 0x80, 0x80, 0x80, 0x10, 0), "field number out of range"},
		{"field 0", proto(0x02, 0), "field number out of range"},
		{"group", proto(0x2B, 0x2C), "wire type that is not in use"},
		{"group as header", proto(0x13, 0x14), "another wire type"},
		{"wire type 7", proto(0x2F), "wire type that is not in use"},
		{"header as varint", proto(0x10, 1), "another wire type"},
		{"body as fixed64", proto(0xC1, 0x3E, "12345678"), "another wire type"},
		{"truncated fixed64", proto(0x31, "1234567"), "truncated field"},
		{"truncated fixed32", proto(0x45, "123"), "truncated field"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for n := 1; n <= len(test.message)+1; n++ {
				fd := FlightData{HasBody: true, Header: []byte("old")}
				err := ParseFlightData(cut(test.message, n), &fd)
				e := udfgate.AsError(err)
				if e == nil || e.Reason != udfgate.Invalid || e.Shape != udfgate.ShapeMalformed || !strings.Contains(e.Message, test.want) ||
					!strings.HasPrefix(e.Message, "malformed FlightData: ") {
					t.Fatalf("pieces of %d: wanted malformed … %s, got %v", n, test.want, err)
				}
				if !reflect.DeepEqual(fd, FlightData{}) {
					t.Fatalf("pieces of %d: an error left %+v", n, fd)
				}
			}
		})
	}
}

func TestAppendFlightData(t *testing.T) {
	if got := AppendFlightData(nil, nil, nil, nil, -1); len(got) != 0 {
		t.Errorf("nothing: got % x", got)
	}
	got := AppendFlightData([]byte("before"), []byte("d"), []byte("hh"), []byte("aaa"), 300)
	want := proto("before", 0x0A, 1, "d", 0x12, 2, "hh", 0x1A, 3, "aaa", 0xC2, 0x3E, 0xAC, 0x02)
	if !bytes.Equal(got, want) {
		t.Errorf("wanted % x, got % x", want, got)
	}
}

func TestCopyBodyBounds(t *testing.T) {
	pieces := [][]byte{[]byte("ab"), nil, []byte("cd")}
	for _, test := range []struct {
		n    int
		r    Range
		want string
	}{
		{4, Range{0, 4}, "abcd"},
		{2, Range{1, 2}, "bc"},
		{1, Range{1, 3}, "b"},
		{3, Range{3, 1}, "d\x00\x00"},
		{3, Range{2, 9}, "cd\x00"},
		{2, Range{9, 2}, "\x00\x00"},
		{0, Range{0, 0}, ""},
	} {
		dst := make([]byte, test.n)
		CopyBody(dst, pieces, test.r)
		if string(dst) != test.want {
			t.Errorf("%+v: wanted %q, got %q", test, test.want, dst)
		}
	}
}

func TestParseDescriptor(t *testing.T) {
	d, err := ParseDescriptor(proto(0x08, 1, 0x1A, 3, "gcd", 0x1A, 1, "x", 0x30, 1))
	if want := (Descriptor{Type: 1, Path: []string{"gcd", "x"}}); err != nil || !reflect.DeepEqual(d, want) {
		t.Errorf("path: got %+v, %v", d, err)
	}
	d, err = ParseDescriptor(proto(0x08, 2, 0x12, 2, "{}"))
	if err != nil || d.Type != 2 || string(d.Cmd) != "{}" {
		t.Errorf("command: got %+v, %v", d, err)
	}
	if d, err = ParseDescriptor(nil); err != nil || !reflect.DeepEqual(d, Descriptor{}) {
		t.Errorf("empty: got %+v, %v", d, err)
	}
	for name, b := range map[string][]byte{
		"type as bytes":   proto(0x0A, 1, "x"),
		"path as varint":  proto(0x18, 1),
		"path not UTF-8":  proto(0x1A, 1, "\xff"),
		"truncated":       proto(0x1A, 9, "x"),
		"too long a path": bytes.Repeat(proto(0x1A, 0), descriptorPathMax+1),
	} {
		if d, err := ParseDescriptor(b); err == nil || udfgate.AsError(err).Reason != udfgate.Invalid || !reflect.DeepEqual(d, Descriptor{}) {
			t.Errorf("%s: wanted Invalid, got %+v, %v", name, d, err)
		}
	}
}

// FuzzParseFlightData: a message parses alike however it was cut, and what was
// parsed and appended parses to the same.
func FuzzParseFlightData(f *testing.F) {
	header := headers(f)["batch-text"]
	f.Add(AppendFlightData(nil, proto(0x08, 1, 0x1A, 3, "gcd"), header, []byte("app"), 0), uint8(7))
	f.Add(append(AppendFlightData(nil, nil, header, nil, 16), make([]byte, 16)...), uint8(1))
	f.Fuzz(func(t *testing.T, message []byte, n uint8) {
		whole := [][]byte{message}
		var fd, again FlightData
		err := ParseFlightData(whole, &fd)
		pieces := cut(message, max(int(n), 1))
		if e := ParseFlightData(pieces, &again); (e == nil) != (err == nil) || !reflect.DeepEqual(fd, again) {
			t.Fatalf("whole: %+v, %v; in pieces of %d: %+v, %v", fd, err, n, again, e)
		}
		if err != nil {
			return
		}
		_, _ = ParseDescriptor(fd.Descriptor)
		content := body(pieces, &fd)
		bodyLen := int64(-1)
		if fd.HasBody {
			bodyLen = fd.Body.Len
		}
		written := append(AppendFlightData(nil, fd.Descriptor, fd.Header, fd.AppMetadata, bodyLen), content...)
		if err := ParseFlightData([][]byte{written}, &again); err != nil {
			t.Fatalf("what was written does not parse: %v", err)
		}
		if !bytes.Equal(fd.Descriptor, again.Descriptor) || !bytes.Equal(fd.Header, again.Header) ||
			!bytes.Equal(fd.AppMetadata, again.AppMetadata) || fd.HasBody != again.HasBody || !bytes.Equal(content, body([][]byte{written}, &again)) {
			t.Fatalf("wrote %+v, read %+v", fd, again)
		}
	})
}

func TestParseFlightDataAllocates(t *testing.T) {
	pieces := benchMessage(1<<19, 16<<10)
	var fd FlightData
	if n := testing.AllocsPerRun(100, func() { _ = ParseFlightData(pieces, &fd) }); n != 0 {
		t.Errorf("wanted no allocation, got %.0f", n)
	}
}

// benchMessage is a batch message as gRPC delivers it.
func benchMessage(bodyLen int, piece int) [][]byte {
	descriptor := proto(0x08, 1, 0x1A, 3, "gcd")
	message := AppendFlightData(nil, descriptor, make([]byte, 184), []byte("17"), int64(bodyLen))
	return cut(append(message, make([]byte, bodyLen)...), piece)
}

func BenchmarkParseFlightData(b *testing.B) {
	for name, pieces := range map[string][][]byte{
		"body=32B":    benchMessage(32, 16<<10),
		"body=512KiB": benchMessage(1<<19, 16<<10),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var fd FlightData
			for b.Loop() {
				if err := ParseFlightData(pieces, &fd); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("floor=memcpy-header", func(b *testing.B) {
		src := benchMessage(0, 16<<10)[0]
		dst := make([]byte, len(src))
		for b.Loop() {
			copy(dst, src)
		}
	})
}

func BenchmarkCopyBody(b *testing.B) {
	pieces := benchMessage(1<<20, 16<<10)
	var fd FlightData
	if err := ParseFlightData(pieces, &fd); err != nil {
		b.Fatal(err)
	}
	slot := mustGet(b, newStore(b, StoreConfig{}), fd.Body.Len)
	b.Run("to-slot", func(b *testing.B) {
		b.SetBytes(fd.Body.Len)
		for b.Loop() {
			CopyBody(slot.Bytes(), pieces, fd.Body)
		}
	})
	b.Run("floor=memcpy", func(b *testing.B) {
		src := bytes.Repeat([]byte{1}, int(fd.Body.Len)) // pages of its own, unlike fresh zeros
		b.SetBytes(fd.Body.Len)
		for b.Loop() {
			copy(slot.Bytes(), src)
		}
	})
}

func BenchmarkAppendFlightData(b *testing.B) {
	header := make([]byte, 136)
	dst := make([]byte, 0, 256)
	b.Run("prefix", func(b *testing.B) {
		for b.Loop() {
			dst = AppendFlightData(dst[:0], nil, header, nil, 1<<19)
		}
	})
	b.Run("floor=memcpy", func(b *testing.B) {
		for b.Loop() {
			dst = binary.AppendUvarint(append(dst[:0], header...), 1<<19)
		}
	})
}
