package server

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"github.com/udfgate/udfgate"
)

// Bounds of the error store. They have no flags: what is lost at the end of it
// is the full text of an error that its caller has already been told in brief.
const (
	errorsKeptMax      = 1024
	errorsKeptBytesMax = 8 << 20
	errorDetailMax     = 64 << 10 // bytes of one message or detail
)

// keptError is the whole text of an error that a caller saw in brief.
type keptError struct {
	id    string
	when  time.Time
	err   udfgate.Error
	batch int64
}

func (k *keptError) bytes() int {
	return len(k.id) + len(k.err.Message) + len(k.err.Detail) + len(k.err.Exception) + len(k.err.Function)
}

// errorStore keeps the latest errors by id; the oldest goes first.
type errorStore struct {
	mu    sync.Mutex
	byID  map[string]*keptError
	order []*keptError // oldest first
	bytes int
}

// keep stores an error and returns its id. The id is random because the text
// may hold a caller's data: one must have seen the error to find it.
func (s *errorStore) keep(e *udfgate.Error, batch int64) string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never returns an error (see crypto/rand)
	k := &keptError{id: hex.EncodeToString(random[:]), when: time.Now(), err: *e, batch: batch}
	k.err.Err = nil // a cause may hold on to anything
	k.err.Message = elide(k.err.Message, errorDetailMax)
	k.err.Detail = elide(k.err.Detail, errorDetailMax)

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]*keptError{}
	}
	s.byID[k.id] = k
	s.order = append(s.order, k)
	s.bytes += k.bytes()
	for len(s.order) > errorsKeptMax || s.bytes > errorsKeptBytesMax {
		oldest := s.order[0]
		s.order[0], s.order = nil, s.order[1:]
		s.bytes -= oldest.bytes()
		delete(s.byID, oldest.id)
	}
	return k.id
}

// find returns the error of an id, nil if it is not (or no longer) kept.
func (s *errorStore) find(id string) *keptError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}
