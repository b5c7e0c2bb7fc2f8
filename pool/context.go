package pool

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/udfgate/udfgate"
)

// What a body may ask of the gateway, and tell it, beside its answer.

const (
	// contextAll and contextCancelled are what a CONTEXT asks for.
	contextAll       = 1
	contextCancelled = 2

	// contextHeadersBytesMax bounds the headers of a request that a body is told.
	contextHeadersBytesMax = 64 << 10

	counterNamesMax = 32      // names of one function
	counterNameMax  = 64      // bytes of a name
	counterValueMax = 1 << 53 // of one chunk, or part

	counterNamesName = "COUNTER_NAMES_MAX" // what authors know counterNamesMax as
)

// contextAnswer is the payload of a CONTEXT that asked for everything.
type contextAnswer struct {
	Stream    uint64      `json:"stream"`
	Batch     int64       `json:"batch"`
	Principal string      `json:"principal"`
	Headers   [][2]string `json:"headers"`
	Cut       bool        `json:"cut,omitempty"`
	Cancelled bool        `json:"cancelled"`
}

// tellContext answers a CONTEXT.
func (x *crossing) tellContext(payload []byte) error {
	if len(payload) != 4 {
		return broken("CONTEXT of %d bytes, wanted 4", len(payload))
	}
	var answer any
	cancelled := x.progress.ending || x.ctx.Err() != nil
	switch what := binary.LittleEndian.Uint32(payload); what {
	case contextAll:
		answer = contextOf(x.call, cancelled)
	case contextCancelled:
		answer = map[string]bool{"cancelled": cancelled}
	default:
		return broken("CONTEXT asks for %d, wanted %d or %d", what, contextAll, contextCancelled)
	}
	return x.tell(frameContext, answer)
}

// tell answers a question of the body. No error of it is an *udfgate.Error: a
// worker that waits for the answer, and owes a RESULT, serves no other call.
func (x *crossing) tell(kind frameType, answer any) error {
	text, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	x.insist()
	return x.w.link.send(kind, x.call.ID, text)
}

func contextOf(call *udfgate.Call, cancelled bool) contextAnswer {
	a := contextAnswer{Stream: call.Stream, Batch: call.Batch, Principal: call.Principal, Headers: [][2]string{}, Cancelled: cancelled}
	if call.Caller == nil {
		return a
	}
	size := 0
	for _, h := range call.Caller.Headers() {
		if !utf8.ValidString(h.Value) { // JSON has no word for it, and another value would be a lie
			a.Cut = true
			continue
		}
		if size += len(h.Key) + len(h.Value); size > contextHeadersBytesMax {
			a.Cut = true
			break
		}
		a.Headers = append(a.Headers, [2]string{h.Key, h.Value})
	}
	return a
}

// counters are the names that a function's bodies have counted under, in all
// workers.
type counters struct {
	mu    sync.Mutex
	names map[string]struct{}
}

// add notes a name; false if there are too many.
func (c *counters) add(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.names[name]; known {
		return true
	}
	if len(c.names) >= counterNamesMax {
		return false
	}
	if c.names == nil {
		c.names = map[string]struct{}{}
	}
	c.names[name] = struct{}{}
	return true
}

// count takes a COUNTS: what the body counted for the answer that follows. A
// name too many is remembered for then: a worker cannot know what others have
// counted under, so it has broken no rule.
func (x *crossing) count(payload []byte) error {
	var counted map[string]int64
	if err := json.Unmarshal(payload, &counted); err != nil {
		return broken("COUNTS: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(counted)) { // the same name is one too many each time
		n := counted[name]
		switch {
		case !counterName(name):
			return broken("COUNTS: wanted a name of 1 to %d letters, digits and _, no digit first, got %q", counterNameMax, cut(name, counterNameMax))
		case n < 1 || n > counterValueMax-x.counts[name]:
			return broken("COUNTS: %s: wanted 1 to %d, got %d", name, int64(counterValueMax), n)
		case !x.w.pool.counters[x.chunk.function.Number].add(name):
			x.excess = cmp.Or(x.excess, name)
			continue
		}
		if x.counts == nil {
			x.counts = make(map[string]int64, len(counted))
		}
		x.counts[name] += n
	}
	return nil
}

// forgetCounts is for an answer that begins anew.
func (x *crossing) forgetCounts() { x.counts, x.excess, x.call.Counts = nil, "", nil }

// excessName refuses an answer whose body counted under a name too many.
func (x *crossing) excessName() error {
	if x.excess == "" {
		return nil
	}
	return errBody(&rowError{
		kind: errorNoRow, class: []byte("ValueError"),
		text: fmt.Appendf(nil, "counter: %q is one name too many: a function has at most %d (%s)", x.excess, counterNamesMax, counterNamesName),
	}, x.chunk.function.Mode)
}

func counterName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= counterNameMax
}
