package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/udfgate/udfgate"
)

// UnpackedBytes is how long the body of a message is once its buffers are
// unpacked, as they say themselves; the body's own length if they are not packed.
//
// # Errors
//
// *udfgate.Error Invalid: malformed, or too large for Limits.BytesMax.
func (d *Decoder) UnpackedBytes(fd *FlightData, m *Message, pieces [][]byte) (int64, error) {
	if m.Compression == CompressionNone {
		return m.BodyLen, nil
	}
	var head [8]byte
	total := int64(0)
	for i, b := range m.Buffers {
		if b.Length == 0 {
			continue
		}
		if b.Length < int64(len(head)) {
			return 0, udfgate.Invalidf(udfgate.ShapeMalformed, "buffer %d: wanted a length of 8 bytes before packed data, got %d bytes in all", i, b.Length)
		}
		CopyBody(head[:], pieces, Range{Off: fd.Body.Off + b.Offset, Len: int64(len(head))})
		size := int64(binary.LittleEndian.Uint64(head[:]))
		if size == -1 { // this one is not packed
			size = b.Length - int64(len(head))
		}
		if size < 0 || size > d.limits.BytesMax-total {
			return 0, d.tooLarge(i, size)
		}
		total = roundUp(total+size, slotAlign)
	}
	return total, nil
}

func (d *Decoder) tooLarge(buffer int, size int64) error {
	return udfgate.Invalidf(udfgate.ShapeTooLarge, "buffer %d of %d bytes unpacked makes the batch larger than %s %d; send smaller batches",
		buffer, size, d.limits.BytesName, d.limits.BytesMax)
}

// unpacked is the body of a message in one piece, its buffers unpacked; m then
// says where those are.
func (d *Decoder) unpacked(fd *FlightData, m *Message, pieces [][]byte) (*Block, error) {
	packed := NewBlock(int(m.BodyLen))
	CopyBody(packed.Bytes(), pieces, Range{Off: fd.Body.Off, Len: m.BodyLen})
	if m.Compression == CompressionNone {
		return packed, nil
	}
	defer packed.Release()
	total, err := d.UnpackedBytes(fd, m, pieces)
	if err != nil {
		return nil, err
	}
	body := NewBlock(int(total))
	clear(body.Bytes())
	at := int64(0)
	for i := range m.Buffers {
		b := &m.Buffers[i]
		if b.Length == 0 {
			b.Offset = 0
			continue
		}
		data := packed.Bytes()[b.Offset : b.Offset+b.Length]
		size := int64(binary.LittleEndian.Uint64(data))
		data = data[8:]
		if size == -1 {
			size = int64(copy(body.Bytes()[at:], data))
		} else if err := unpack(body.Bytes()[at:at+size:at+size], data, m.Compression); err != nil {
			body.Release()
			return nil, udfgate.Invalidf(udfgate.ShapeMalformed, "buffer %d: wanted %d bytes unpacked: %w", i, size, err)
		}
		b.Offset, b.Length = at, size
		at = roundUp(at+size, slotAlign)
	}
	m.BodyLen = total
	return body, nil
}

// errLonger is packed data of more bytes than it said.
var errLonger = errors.New("the data is longer")

// unpack fills dst, exactly.
func unpack(dst, src []byte, how Compression) error {
	if how == CompressionLZ4 {
		r, ok := lz4Readers.Get().(*lz4.Reader)
		if !ok {
			r = lz4.NewReader(nil)
		}
		defer lz4Readers.Put(r)
		r.Reset(bytes.NewReader(src))
		return fill(dst, r)
	}
	r, ok := zstdReaders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		if r, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true)); err != nil {
			return err
		}
	}
	defer zstdReaders.Put(r)
	if err := r.Reset(bytes.NewReader(src)); err != nil {
		return err
	}
	return fill(dst, r)
}

var lz4Readers, zstdReaders sync.Pool

// fill reads dst whole and refuses a byte more.
func fill(dst []byte, r io.Reader) error {
	if _, err := io.ReadFull(r, dst); err != nil {
		return err
	}
	var one [1]byte
	if n, err := r.Read(one[:]); n > 0 || err == nil {
		return errLonger
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
