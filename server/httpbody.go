package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/udfgate/udfgate"
)

const (
	contentJSON = "application/json"

	// bodyBytesFirst is the room that a body gets before anything of it has
	// come. It then grows with what is there, so that who announces much and
	// sends nothing holds next to nothing.
	bodyBytesFirst = 4 << 10
	// bodyRateMin bounds how slowly a body may come, and an answer be taken: so
	// many bytes a second, after Config.NotReadingTimeout.
	bodyRateMin = 256 << 10
)

// requestBody is the body of a request, within the in-flight budget. Once it has
// been read, the text is the receiver's of its call alone.
type requestBody struct {
	budget *budget
	text   []byte
	held   atomic.Int64
}

// release gives the body's bytes back; it may be called again, also by a call
// that was cut off while its receiver was still reading the text.
func (b *requestBody) release() { b.budget.release(b.held.Swap(0)) }

// refusal is an error that HTTP has a status of its own for.
type refusal struct {
	status int
	err    *udfgate.Error
}

// checkContent wants JSON as it is: a page of another site cannot send that
// type without asking first.
func checkContent(h http.Header) *refusal {
	refuse := func(format string, args ...any) *refusal {
		return &refusal{http.StatusUnsupportedMediaType, malformed(format, args...)}
	}
	given := h.Get("Content-Type")
	kind, parameters, err := mime.ParseMediaType(given)
	if err != nil || kind != contentJSON {
		return refuse("content-type: wanted %s, got %q", contentJSON, cut(given, nameBytesMax))
	}
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return refuse("content-type: wanted charset utf-8, got %q", cut(charset, nameBytesMax))
	}
	if coding := h.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return refuse("content-encoding: wanted none, got %q", cut(coding, nameBytesMax))
	}
	return nil
}

// bytesMax is the most that a text may have, and what errors call it.
func (s *Server) bytesMax() (limit int64, name string) {
	if s.config.InflightBytesMax < s.config.MessageBytesMax {
		return s.config.InflightBytesMax, inflightBytesName
	}
	return s.config.MessageBytesMax, messageBytesName
}

// readBody reads a request to its end, with bytes from the budget. A body that
// comes too slowly is broken off.
func (s *Server) readBody(ctx context.Context, w http.ResponseWriter, r *http.Request) (*requestBody, *refusal) {
	limit, name := s.bytesMax()
	if r.ContentLength > limit {
		return nil, bodyTooLarge(fmt.Sprintf("body of %d bytes", r.ContentLength), name, limit)
	}
	b := &requestBody{budget: s.budget}
	control := http.NewResponseController(w)
	from := time.Now()
	for {
		if len(b.text) == cap(b.text) {
			if int64(len(b.text)) > limit {
				b.release()
				return nil, bodyTooLarge(fmt.Sprintf("body of more than %d bytes", limit), name, limit)
			}
			if err := s.growBody(ctx, b, r.ContentLength, limit); err != nil {
				b.release()
				return nil, err
			}
		}
		// Not every ResponseWriter can; the server's own can.
		_ = control.SetReadDeadline(from.Add(s.config.NotReadingTimeout + time.Duration(len(b.text))*time.Second/bodyRateMin))
		n, err := r.Body.Read(b.text[len(b.text):cap(b.text)])
		b.text = b.text[:len(b.text)+n]
		switch {
		case errors.Is(err, io.EOF):
			// From here on only the caller's going away is read, however late.
			_ = control.SetReadDeadline(time.Time{})
			return b, nil
		case err != nil:
			got := len(b.text)
			b.release()
			return nil, s.bodyBroken(err, got)
		}
	}
}

// growBody makes room for twice as much, at most for what was announced.
func (s *Server) growBody(ctx context.Context, b *requestBody, announced, limit int64) *refusal {
	size := max(2*int64(cap(b.text)), bodyBytesFirst)
	if announced >= 0 {
		size = min(size, announced+1) // one more: its Read finds the end
	}
	size = min(size, limit+1)
	if granted, _ := s.budget.settle(0, size-b.held.Load(), s.config.QueueTimeout, nil, ctx.Done()); !granted {
		return &refusal{err: s.inflightFull(ctx, "for a request's body")}
	}
	b.held.Store(size)
	text := make([]byte, len(b.text), size)
	copy(text, b.text)
	b.text = text
	return nil
}

// discardBody reads on for a moment before a refusal goes out: a client that is
// still writing when its connection ends may never read why. One that asks
// before it writes is just told.
func discardBody(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Expect") != "" {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lingerMax))
	_, _ = io.Copy(io.Discard, r.Body)
}

func bodyTooLarge(what, name string, limit int64) *refusal {
	return &refusal{err: udfgate.Invalidf(udfgate.ShapeTooLarge, "%s is over %s %d; send fewer rows", what, name, limit)}
}

func (s *Server) bodyBroken(err error, got int) *refusal {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &refusal{http.StatusRequestTimeout, malformed(
			"body comes too slowly: wanted %d bytes a second after the first %s, got %d bytes", bodyRateMin, s.config.NotReadingTimeout, got)}
	}
	return &refusal{err: malformed("body breaks off after %d bytes: %w", got, err)}
}

// rowsOf finds the rows in the text of a call: {"rows": [[1, 2], [3, null]]}.
func rowsOf(text []byte) (json.RawMessage, error) {
	if !utf8.Valid(text) {
		return nil, malformed("body: wanted JSON in UTF-8, got bytes that are not")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	token, err := dec.Token()
	if err != nil {
		return nil, notJSON(err)
	}
	if token != json.Delim('{') {
		return nil, malformed(`body: wanted an object such as {"rows": [[1, 2]]}, got %s`, tokenName(token))
	}
	var rows json.RawMessage
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, notJSON(err)
		}
		switch {
		case token != "rows":
			return nil, malformed("body: unknown member %s: wanted rows alone", tokenName(token))
		case rows != nil:
			return nil, malformed("body: member rows is there twice")
		}
		if err := dec.Decode(&rows); err != nil {
			return nil, notJSON(err)
		}
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return nil, notJSON(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, malformed("body: wanted nothing after the object, got more from byte %d on", dec.InputOffset())
	}
	if rows == nil {
		return nil, malformed("body: wanted a member rows, an array with an array of values per row")
	}
	return rows, nil
}

func notJSON(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return malformed("body: JSON ends too early")
	}
	return malformed("body: not JSON: %w", err)
}

// tokenName is a token in the words of JSON.
func tokenName(token json.Token) string {
	switch token := token.(type) {
	case nil:
		return "null"
	case json.Delim:
		if token == '[' {
			return "an array"
		}
		return "an object"
	case string:
		return fmt.Sprintf("%q", cut(token, nameBytesMax))
	}
	return cut(fmt.Sprint(token), nameBytesMax)
}
