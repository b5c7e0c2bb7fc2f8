package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"unsafe"

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
	if err := checkFrame(fd, m); err != nil || m.Compression == CompressionNone {
		return m.BodyLen, err
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
		if size < 0 {
			return 0, udfgate.Invalidf(udfgate.ShapeMalformed, "buffer %d: wanted a length of 0 or more before packed data, or -1, got %d", i, size)
		}
		if size > d.limits.BytesMax-total {
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
// says where those are. It is good until the block, if there is one, is released,
// and no longer than pieces are.
func (d *Decoder) unpacked(fd *FlightData, m *Message, pieces [][]byte) (body []byte, block *Block, err error) {
	packed := contiguous(pieces, Range{Off: fd.Body.Off, Len: m.BodyLen})
	if packed == nil {
		block = NewBlock(int(m.BodyLen))
		packed = block.Bytes()
		CopyBody(packed, pieces, Range{Off: fd.Body.Off, Len: m.BodyLen})
	}
	if m.Compression == CompressionNone {
		return packed, block, nil
	}
	if block != nil {
		defer block.Release()
	}
	total, err := d.UnpackedBytes(fd, m, pieces)
	if err != nil {
		return nil, nil, err
	}
	out := NewBlock(int(total)) // gaps between buffers are never read
	body = out.Bytes()
	at := int64(0)
	for i := range m.Buffers {
		b := &m.Buffers[i]
		if b.Length == 0 {
			b.Offset = 0
			continue
		}
		data := packed[b.Offset : b.Offset+b.Length]
		size := int64(binary.LittleEndian.Uint64(data))
		data = data[8:]
		if size == -1 {
			size = int64(copy(body[at:], data))
		} else if err := unpack(body[at:at+size:at+size], data, m.Compression); err != nil {
			out.Release()
			return nil, nil, udfgate.Invalidf(udfgate.ShapeMalformed, "buffer %d: wanted %d bytes unpacked: %w", i, size, err)
		}
		b.Offset, b.Length = at, size
		at = roundUp(at+size, slotAlign)
	}
	m.BodyLen = total
	return body, out, nil
}

// contiguous is a body where it lies, if it does so in one piece and aligned as
// its buffers must be; nil if not.
func contiguous(pieces [][]byte, body Range) []byte {
	off := body.Off
	for _, p := range pieces {
		if off >= int64(len(p)) {
			off -= int64(len(p))
			continue
		}
		if body.Len > int64(len(p))-off || uintptr(unsafe.Pointer(&p[off]))%bufferAlign != 0 {
			return nil
		}
		return p[off : off+body.Len : off+body.Len]
	}
	return nil
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
	r, err := zstdDecoder()
	if err != nil {
		return err
	}
	out, err := r.DecodeAll(src, dst[:0])
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return errLonger
	case err != nil:
		return err
	case len(out) != len(dst):
		return io.ErrUnexpectedEOF
	case len(out) > 0 && &out[0] != &dst[0]:
		copy(dst, out)
	}
	return nil
}

// zstdDecoder decodes into memory that is given, and never asks for more: what
// a frame says about its window is not believed.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
})

var lz4Readers sync.Pool

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
