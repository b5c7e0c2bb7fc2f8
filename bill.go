package udfgate

import (
	"encoding/json"
	"strings"
)

// BillTrailerBytesMax bounds the bill in the trailer; over it work, trace and
// principal are dropped, in that order.
const BillTrailerBytesMax = 1024

// Bill is the time of one call (or, in app_metadata, of one batch), split into
// phases. All durations are nanoseconds and
// queue + coalesce + start + conversion + crossing + body + reply + other = wall.
type Bill struct {
	Function        string   `json:"function"`
	Version         string   `json:"version"`
	Dialect         string   `json:"dialect"`
	Path            string   `json:"path"`
	Rows            int64    `json:"rows"`
	RowsNative      int64    `json:"rows_native"`
	RowsFailed      int64    `json:"rows_failed"`
	BytesIn         int64    `json:"bytes_in"`
	BytesOut        int64    `json:"bytes_out"`
	Batches         int64    `json:"batches"`
	Crossings       int64    `json:"crossings"`
	Attempts        int64    `json:"attempts"`
	Parallelism     float64  `json:"parallelism"`
	Cold            bool     `json:"cold"`
	Trace           string   `json:"trace"`
	Principal       string   `json:"principal"`
	SlotBytes       int64    `json:"slot_bytes"`
	ResultBytes     int64    `json:"result_bytes"`
	WorkerPeakBytes int64    `json:"worker_peak_bytes"`
	WallNS          int64    `json:"wall_ns"`
	QueueNS         int64    `json:"queue_ns"`
	CoalesceNS      int64    `json:"coalesce_ns"`
	StartNS         int64    `json:"start_ns"`
	ConversionNS    int64    `json:"conversion_ns"`
	ConvGatewayNS   int64    `json:"conversion_gateway_ns"`
	ConvWorkerNS    int64    `json:"conversion_worker_ns"`
	CrossingNS      int64    `json:"crossing_ns"`
	CrossingOutNS   int64    `json:"crossing_out_ns"`
	CrossingBackNS  int64    `json:"crossing_back_ns"`
	BodyNS          int64    `json:"body_ns"`
	BodyCPUNS       int64    `json:"body_cpu_ns"`
	ReplyNS         int64    `json:"reply_ns"`
	OtherNS         int64    `json:"other_ns"`
	IdleNS          int64    `json:"idle_ns"`
	Worker          string   `json:"worker"`
	Work            BillWork `json:"work"`
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

// SetWork fills work, body_cpu_ns and parallelism (Σ body work / body wall).
func (b *Bill) SetWork(w Work) {
	b.Work = BillWork(w)
	b.BodyCPUNS = w.BodyCPUNS
	b.Parallelism = 1
	if b.BodyNS > 0 {
		b.Parallelism = float64(w.BodyNS) / float64(b.BodyNS)
	}
}

// JSON is the whole bill, every key present.
func (b *Bill) JSON() []byte {
	out, err := json.Marshal(b)
	if err != nil { // only a NaN could: Parallelism is finite by construction
		return []byte("{}")
	}
	return out
}

// Trailer is the bill as ASCII JSON without zero keys, at most
// BillTrailerBytesMax long: work, trace and principal go first, in that order.
func (b *Bill) Trailer() string {
	drop := []string{"", "work", "trace", "principal"}
	var gone []string
	for _, d := range drop {
		if d != "" {
			gone = append(gone, d)
		}
		if s := b.compact(gone); len(s) <= BillTrailerBytesMax {
			return s
		}
	}
	// Only a name near the limit leads here; the numbers matter more.
	return b.compact(append(gone, "version", "worker", "function"))
}

// compact renders the bill without zero values and without the keys in gone.
// It goes through encoding/json's own field order once more rather than a
// second list of the fields, so a new field cannot be forgotten here.
func (b *Bill) compact(gone []string) string {
	var kept map[string]json.RawMessage
	if err := json.Unmarshal(b.JSON(), &kept); err != nil {
		return "{}"
	}
	for k, v := range kept {
		if zeroJSON(v) {
			delete(kept, k)
		}
	}
	for _, k := range gone {
		delete(kept, k)
	}
	out, err := json.Marshal(kept)
	if err != nil {
		return "{}"
	}
	return asciiJSON(string(out))
}

func zeroJSON(v json.RawMessage) bool {
	switch string(v) {
	case "0", `""`, "false", "null":
		return true
	}
	return false
}

// asciiJSON escapes what a gRPC header may not carry: every rune beyond ASCII.
func asciiJSON(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r > 0x7e }) {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		switch {
		case r <= 0x7e:
			out.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			writeEscape(&out, 0xd800+(r>>10))
			writeEscape(&out, 0xdc00+(r&0x3ff))
		default:
			writeEscape(&out, r)
		}
	}
	return out.String()
}

func writeEscape(out *strings.Builder, r rune) {
	const hex = "0123456789abcdef"
	out.WriteString(`\u`)
	for shift := 12; shift >= 0; shift -= 4 {
		out.WriteByte(hex[(r>>shift)&15])
	}
}
