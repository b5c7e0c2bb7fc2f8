package udfgate

import (
	"maps"
	"math"
	"slices"
	"strconv"
)

// BillTrailerBytesMax bounds the bill in the trailer; over it work, trace,
// principal and counters are dropped, in that order.
const BillTrailerBytesMax = 1024

// Bill is the time of one call (or, in app_metadata, of one batch), split into
// phases. All durations are nanoseconds and
// queue + coalesce + start + conversion + crossing + body + reply + other = wall.
type Bill struct {
	Function        string  `json:"function"`
	Version         string  `json:"version"`
	Dialect         string  `json:"dialect"`
	Path            string  `json:"path"`
	Rows            int64   `json:"rows"`
	RowsNative      int64   `json:"rows_native"`
	RowsFailed      int64   `json:"rows_failed"`
	BytesIn         int64   `json:"bytes_in"`
	BytesOut        int64   `json:"bytes_out"`
	Batches         int64   `json:"batches"`
	Crossings       int64   `json:"crossings"`
	Attempts        int64   `json:"attempts"`
	Parallelism     float64 `json:"parallelism"`
	Cold            bool    `json:"cold"`
	Trace           string  `json:"trace"`
	Principal       string  `json:"principal"`
	SlotBytes       int64   `json:"slot_bytes"`
	ResultBytes     int64   `json:"result_bytes"`
	WorkerPeakBytes int64   `json:"worker_peak_bytes"`
	WallNS          int64   `json:"wall_ns"`
	QueueNS         int64   `json:"queue_ns"`
	CoalesceNS      int64   `json:"coalesce_ns"`
	StartNS         int64   `json:"start_ns"`
	ConversionNS    int64   `json:"conversion_ns"`
	ConvGatewayNS   int64   `json:"conversion_gateway_ns"`
	ConvWorkerNS    int64   `json:"conversion_worker_ns"`
	CrossingNS      int64   `json:"crossing_ns"`
	CrossingOutNS   int64   `json:"crossing_out_ns"`
	CrossingBackNS  int64   `json:"crossing_back_ns"`
	BodyNS          int64   `json:"body_ns"`
	BodyCPUNS       int64   `json:"body_cpu_ns"`
	ReplyNS         int64   `json:"reply_ns"`
	OtherNS         int64   `json:"other_ns"`
	IdleNS          int64   `json:"idle_ns"`
	Worker          string  `json:"worker"`
	// Counters is what bodies counted, by name; left out when there is nothing.
	Counters map[string]int64 `json:"counters,omitempty"`
	Work     BillWork         `json:"work"`
}

// BillWork is Work as the bill prints it.
type BillWork struct {
	BodyNS              int64 `json:"body_ns"`
	BodyCPUNS           int64 `json:"body_cpu_ns"`
	ConversionWorkerNS  int64 `json:"conversion_worker_ns"`
	ConversionGatewayNS int64 `json:"conversion_gateway_ns"`
	CrossingNS          int64 `json:"crossing_ns"`
}

// SetPartition fills the phases from wall time by state.
func (b *Bill) SetPartition(p *Partition) {
	b.WallNS = p.Wall()
	b.QueueNS, b.CoalesceNS, b.StartNS = p[StateQueue], p[StateCoalesce], p[StateStart]
	b.ConvGatewayNS, b.ConvWorkerNS = p[StateConversionGateway], p[StateConversionWorker]
	b.ConversionNS = b.ConvGatewayNS + b.ConvWorkerNS
	b.CrossingOutNS, b.CrossingBackNS = p[StateCrossingOut], p[StateCrossingBack]
	b.CrossingNS = b.CrossingOutNS + b.CrossingBackNS
	b.BodyNS, b.ReplyNS, b.OtherNS = p[StateBody], p[StateReply], p[StateOther]
}

// SetWork fills work, body_cpu_ns and parallelism (Σ body work / body wall, to
// a thousandth: it is read by people and travels in a trailer).
func (b *Bill) SetWork(w Work) {
	b.Work = BillWork(w)
	b.BodyCPUNS = w.BodyCPUNS
	b.Parallelism = 1
	if b.BodyNS > 0 {
		b.Parallelism = math.Round(1000*float64(w.BodyNS)/float64(b.BodyNS)) / 1000
	}
}

// JSON is the whole bill, every key present. It is ASCII.
func (b *Bill) JSON() []byte { return b.AppendJSON(make([]byte, 0, BillTrailerBytesMax)) }

// AppendJSON appends JSON to dst.
func (b *Bill) AppendJSON(dst []byte) []byte {
	return b.write(billWriter{dst: dst, zeros: true}, keepAll).dst
}

// Trailer is the bill as ASCII JSON without zero keys, at most
// BillTrailerBytesMax long: work, trace, principal and counters go first, in
// that order.
func (b *Bill) Trailer() string {
	var room [BillTrailerBytesMax + 256]byte // beyond it append allocates; nothing is lost
	for keep := keepAll; ; keep-- {
		w := b.write(billWriter{dst: room[:0]}, keep)
		if len(w.dst) <= BillTrailerBytesMax || keep == keepPhases {
			return string(w.dst)
		}
	}
}

// What a bill keeps when it is too long, the least first: each step drops one
// more thing. The last two are for names and numbers near their limits.
const (
	keepPhases    = iota // drops all but the partition of the wall
	keepNumbers          // drops the names
	keepNames            // drops counters
	keepCounters         // drops principal
	keepPrincipal        // drops trace
	keepTrace            // drops work
	keepAll
)

// write is the one list of the bill's keys; a test compares it with the tags.
func (b *Bill) write(w billWriter, keep int) billWriter {
	w = w.open()
	if keep >= keepNames {
		w = w.text(`"function":`, b.Function)
		w = w.text(`"version":`, b.Version)
		w = w.text(`"dialect":`, b.Dialect)
		w = w.text(`"path":`, b.Path)
	}
	if keep >= keepNumbers {
		w = b.writeCounts(w, keep)
	}
	w = w.number(`"wall_ns":`, b.WallNS)
	w = w.number(`"queue_ns":`, b.QueueNS)
	w = w.number(`"coalesce_ns":`, b.CoalesceNS)
	w = w.number(`"start_ns":`, b.StartNS)
	w = w.number(`"conversion_ns":`, b.ConversionNS)
	w = w.number(`"conversion_gateway_ns":`, b.ConvGatewayNS)
	w = w.number(`"conversion_worker_ns":`, b.ConvWorkerNS)
	w = w.number(`"crossing_ns":`, b.CrossingNS)
	w = w.number(`"crossing_out_ns":`, b.CrossingOutNS)
	w = w.number(`"crossing_back_ns":`, b.CrossingBackNS)
	w = w.number(`"body_ns":`, b.BodyNS)
	w = w.number(`"body_cpu_ns":`, b.BodyCPUNS)
	w = w.number(`"reply_ns":`, b.ReplyNS)
	w = w.number(`"other_ns":`, b.OtherNS)
	w = w.number(`"idle_ns":`, b.IdleNS)
	if keep >= keepNames {
		w = w.text(`"worker":`, b.Worker)
	}
	if keep >= keepCounters {
		w = w.counters(b.Counters)
	}
	if keep >= keepAll && (w.zeros || b.Work != BillWork{}) {
		w = w.key(`"work":`)
		w = w.open()
		w = w.number(`"body_ns":`, b.Work.BodyNS)
		w = w.number(`"body_cpu_ns":`, b.Work.BodyCPUNS)
		w = w.number(`"conversion_worker_ns":`, b.Work.ConversionWorkerNS)
		w = w.number(`"conversion_gateway_ns":`, b.Work.ConversionGatewayNS)
		w = w.number(`"crossing_ns":`, b.Work.CrossingNS)
		w = w.shut()
	}
	return w.shut()
}

func (b *Bill) writeCounts(w billWriter, keep int) billWriter {
	w = w.number(`"rows":`, b.Rows)
	w = w.number(`"rows_native":`, b.RowsNative)
	w = w.number(`"rows_failed":`, b.RowsFailed)
	w = w.number(`"bytes_in":`, b.BytesIn)
	w = w.number(`"bytes_out":`, b.BytesOut)
	w = w.number(`"batches":`, b.Batches)
	w = w.number(`"crossings":`, b.Crossings)
	w = w.number(`"attempts":`, b.Attempts)
	w = w.float(`"parallelism":`, b.Parallelism)
	w = w.flag(`"cold":`, b.Cold)
	if keep >= keepTrace {
		w = w.text(`"trace":`, b.Trace)
	}
	if keep >= keepPrincipal {
		w = w.text(`"principal":`, b.Principal)
	}
	w = w.number(`"slot_bytes":`, b.SlotBytes)
	w = w.number(`"result_bytes":`, b.ResultBytes)
	return w.number(`"worker_peak_bytes":`, b.WorkerPeakBytes)
}

// billWriter appends JSON members. It is written by hand because a trailer is
// made for every call, and encoding/json would cost more than a small call's
// own work in the gateway. It goes by value, which keeps its bytes off the heap.
type billWriter struct {
	dst   []byte
	zeros bool // write members whose value is zero too
}

func (w billWriter) open() billWriter { return w.put('{') }
func (w billWriter) shut() billWriter { return w.put('}') }

func (w billWriter) put(c byte) billWriter {
	w.dst = append(w.dst, c)
	return w
}

// key appends a quoted key with its colon, and a comma where one is due.
func (w billWriter) key(k string) billWriter {
	if w.dst[len(w.dst)-1] != '{' {
		w.dst = append(w.dst, ',')
	}
	w.dst = append(w.dst, k...)
	return w
}

func (w billWriter) number(key string, v int64) billWriter {
	if v != 0 || w.zeros {
		w = w.key(key)
		w.dst = strconv.AppendInt(w.dst, v, 10)
	}
	return w
}

// counters writes what bodies counted, in the order of the names.
func (w billWriter) counters(counts map[string]int64) billWriter {
	if len(counts) == 0 {
		return w
	}
	w = w.key(`"counters":`)
	w = w.open()
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		w = w.key(string(AppendQuoted(nil, name)) + ":")
		w.dst = strconv.AppendInt(w.dst, counts[name], 10)
	}
	return w.shut()
}

// float writes a value that is no number as 0: JSON has no word for it.
func (w billWriter) float(key string, v float64) billWriter {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	if v != 0 || w.zeros {
		w = w.key(key)
		w.dst = strconv.AppendFloat(w.dst, v, 'g', -1, 64)
	}
	return w
}

func (w billWriter) flag(key string, v bool) billWriter {
	if v || w.zeros {
		w = w.key(key)
		w.dst = strconv.AppendBool(w.dst, v)
	}
	return w
}

func (w billWriter) text(key, v string) billWriter {
	if v != "" || w.zeros {
		w = w.key(key)
		w.dst = AppendQuoted(w.dst, v)
	}
	return w
}

// AppendQuoted appends s as a JSON string in printable ASCII, which is all that
// a gRPC trailer may carry. Bytes that are not UTF-8 become U+FFFD.
func AppendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	if plain(s) {
		return append(append(dst, s...), '"')
	}
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r >= ' ' && r <= '~':
			dst = append(dst, byte(r))
		case r > 0xffff:
			r -= 0x10000
			dst = appendEscape(appendEscape(dst, 0xd800+r>>10), 0xdc00+r&0x3ff)
		default:
			dst = appendEscape(dst, r)
		}
	}
	return append(dst, '"')
}

// plain reports whether s needs no escape.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func appendEscape(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
