package codec

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/udfgate/udfgate"
)

// Fields of arrow.flight.protocol.FlightData and FlightDescriptor.
const (
	dataDescriptor  = 1
	dataHeader      = 2
	dataAppMetadata = 3
	dataBody        = 1000
	dataBodyTag     = dataBody<<3 | wireBytes

	descriptorType = 1
	descriptorCmd  = 2
	descriptorPath = 3
)

// descriptorPathMax bounds the elements of a path: each costs the sender two
// bytes and the gateway eight times as many.
const descriptorPathMax = 64

// FlightData is one message of a Flight stream, split into its fields. The
// slices may alias the pieces that it was parsed from and are valid until
// those are freed. A field that was not sent is nil.
type FlightData struct {
	Descriptor  []byte
	Header      []byte
	AppMetadata []byte
	HasBody     bool
	Body        Range // in the pieces, taken as one run of bytes
}

// ParseFlightData splits a message that arrived as pieces, cut anywhere, and
// overwrites fd. Fields may come in any order; of a repeated one the last
// counts, and unknown ones are skipped. It allocates only where a header is
// cut in two.
//
// # Errors
//
// *udfgate.Error Invalid says which rule of protobuf the bytes break and where.
func ParseFlightData(pieces [][]byte, fd *FlightData) error {
	*fd = FlightData{}
	w := newProtoWalk(pieces)
	if parseUsual(w.piece, w.total, fd) {
		return nil
	}
	*fd = FlightData{}
	for w.more() {
		number, wire := w.tag()
		var field *[]byte
		switch number {
		case dataDescriptor:
			field = &fd.Descriptor
		case dataHeader:
			field = &fd.Header
		case dataAppMetadata:
			field = &fd.AppMetadata
		case dataBody:
		default:
			w.skip(wire)
			continue
		}
		if wire != wireBytes {
			w.fail("field of another wire type than FlightData has")
			break
		}
		n := w.length()
		if field != nil {
			*field = w.take(n)
			continue
		}
		fd.HasBody, fd.Body = true, Range{Off: w.pos(), Len: n}
		w.step(n)
	}
	if w.fault != "" {
		*fd = FlightData{}
		return w.err("FlightData")
	}
	return nil
}

// parseUsual parses the form that every client has been seen to send: the
// fields in order, all but the body's bytes in the first piece, nothing
// unknown. It returns false, with fd in disorder, where the walk must look.
func parseUsual(b []byte, total int64, fd *FlightData) bool {
	at := 0
	for at+1 < len(b) {
		tag := b[at]
		if tag == dataBodyTag&0x7f|0x80 {
			n, width := binary.Uvarint(b[at+2:])
			if b[at+1] != dataBodyTag>>7 || width <= 0 || n != uint64(total-int64(at+2+width)) {
				return false
			}
			at += 2 + width
			fd.HasBody, fd.Body = true, Range{Off: int64(at), Len: int64(n)}
			return true
		}
		n := int(b[at+1])
		at += 2
		if n >= 0x80 { // lengths of headers take two bytes
			if at == len(b) || b[at] >= 0x80 {
				return false
			}
			n = n&0x7f | int(b[at])<<7
			at++
		}
		if n > len(b)-at {
			return false
		}
		value := b[at : at+n : at+n]
		at += n
		switch tag {
		case dataDescriptor<<3 | wireBytes:
			fd.Descriptor = value
		case dataHeader<<3 | wireBytes:
			fd.Header = value
		case dataAppMetadata<<3 | wireBytes:
			fd.AppMetadata = value
		default:
			return false
		}
	}
	return at == len(b) && total == int64(at)
}

// CopyBody copies a range of the pieces, as ParseFlightData found it, to dst,
// and no more than dst has room for.
func CopyBody(dst []byte, pieces [][]byte, body Range) {
	dst = dst[:min(int64(len(dst)), body.Len)]
	off := body.Off
	for _, p := range pieces {
		if off >= int64(len(p)) {
			off -= int64(len(p))
			continue
		}
		n := copy(dst, p[off:])
		dst, off = dst[n:], 0
		if len(dst) == 0 {
			return
		}
	}
}

// AppendFlightData appends all of a message but the body's bytes, which must
// follow, bodyLen of them. Empty fields are left out, the body too where
// bodyLen is -1.
func AppendFlightData(dst, descriptor, header, appMetadata []byte, bodyLen int64) []byte {
	dst = appendProtoBytes(dst, dataDescriptor, descriptor)
	dst = appendProtoBytes(dst, dataHeader, header)
	dst = appendProtoBytes(dst, dataAppMetadata, appMetadata)
	if bodyLen >= 0 {
		dst = binary.AppendUvarint(dst, dataBodyTag)
		dst = binary.AppendUvarint(dst, uint64(bodyLen))
	}
	return dst
}

func appendProtoBytes(dst []byte, number uint64, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, number<<3|wireBytes)
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}

// Descriptor is a FlightDescriptor: 1 for a path, 2 for a command, 0 unknown.
type Descriptor struct {
	Type int32
	Cmd  []byte // aliases what was parsed
	Path []string
}

// ParseDescriptor reads a FlightDescriptor.
//
// # Errors
//
// *udfgate.Error Invalid for bytes that break protobuf's rules, a path that is
// not UTF-8, or one of more than 64 elements.
func ParseDescriptor(b []byte) (Descriptor, error) {
	var d Descriptor
	w := newProtoWalk([][]byte{b})
	for w.more() {
		number, wire := w.tag()
		switch {
		case number == descriptorType && wire == wireVarint:
			d.Type = int32(w.varint())
		case number == descriptorCmd && wire == wireBytes:
			d.Cmd = w.take(w.length())
		case number == descriptorPath && wire == wireBytes:
			element := w.take(w.length())
			if !utf8.Valid(element) {
				w.fail("path that is not UTF-8")
				break
			}
			if len(d.Path) == descriptorPathMax {
				return Descriptor{}, udfgate.Invalidf(udfgate.ShapeTooLarge,
					"flight descriptor: path of more than %d elements", descriptorPathMax)
			}
			d.Path = append(d.Path, string(element))
		case number <= descriptorPath:
			w.fail("field of another wire type than FlightDescriptor has")
		default:
			w.skip(wire)
		}
	}
	if w.fault != "" {
		return Descriptor{}, w.err("FlightDescriptor")
	}
	return d, nil
}
