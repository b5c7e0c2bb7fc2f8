package metrics

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/udfgate/udfgate"
)

// phases are the label values of udfgate_wall_seconds_total: a partition, so
// conversion and crossing appear as their parts alone.
var phases = [...]string{
	"queue", "coalesce", "start", "conversion_gateway", "conversion_worker",
	"crossing_out", "crossing_back", "body", "reply", "other",
}

// workPhases are the label values of udfgate_work_seconds_total.
var workPhases = [...]string{"body", "body_cpu", "conversion_worker", "conversion_gateway", "crossing"}

// Outcomes of calls beside the reasons of errors.
const outcomeOK = "ok"

// paths are the label values of path: a closed set, checked before use.
const pathPython = "python"

// combination is the children whose labels a bill brings along.
type combination struct {
	dialect, path string
	reason        udfgate.Reason // empty: ok
	calls         prometheus.Counter
	seconds       prometheus.Observer
	rows, failed  prometheus.Counter
}

// Function returns the series of a function, made at first sight. name is what
// the function is called in answers: its short name where that is unique.
func (m *Metrics) Function(f *udfgate.Function, name string) *Function {
	if s, ok := m.functions.Load(f); ok {
		return s.(*Function) //nolint:errcheck // the map holds nothing else
	}
	label := m.names.label(name)
	s := &Function{metrics: m, name: label}
	for i, phase := range phases {
		s.wall[i] = m.wall.WithLabelValues(label, phase)
	}
	for i, phase := range workPhases {
		s.work[i] = m.work.WithLabelValues(label, phase)
	}
	s.bytesIn = m.bytes.WithLabelValues(label, "in")
	s.bytesOut = m.bytes.WithLabelValues(label, "out")
	s.crossings = m.crossings.WithLabelValues(label)
	s.chunkRows = m.chunkRows.WithLabelValues(label)
	if label != overflow {
		m.functionInfo.WithLabelValues(label, f.Version, pathPython).Set(1)
		m.shown.Store(f.Canonical(), label)
	}
	kept, _ := m.functions.LoadOrStore(f, s)
	return kept.(*Function) //nolint:errcheck // the map holds nothing else
}

// shownAs is the label of a function whose name comes from elsewhere: short, or
// canonical. A short name that several functions have stands for itself.
func (m *Metrics) shownAs(name string) string {
	if label, ok := m.shown.Load(name); ok {
		return label.(string) //nolint:errcheck // the map holds nothing else
	}
	return m.names.label(name)
}

// ChunkRows notes the size of a batch handed to a backend.
func (f *Function) ChunkRows(rows int64) { f.chunkRows.Observe(float64(rows)) }

// Observe books the bill of a call that ended; reason is empty if all went well.
func (f *Function) Observe(b *udfgate.Bill, reason udfgate.Reason) {
	wall := [len(phases)]int64{
		b.QueueNS, b.CoalesceNS, b.StartNS, b.ConvGatewayNS, b.ConvWorkerNS,
		b.CrossingOutNS, b.CrossingBackNS, b.BodyNS, b.ReplyNS, b.OtherNS,
	}
	for i, ns := range wall {
		addSeconds(f.wall[i], ns)
	}
	work := [len(workPhases)]int64{
		b.Work.BodyNS, b.Work.BodyCPUNS, b.Work.ConversionWorkerNS, b.Work.ConversionGatewayNS, b.Work.CrossingNS,
	}
	for i, ns := range work {
		addSeconds(f.work[i], ns)
	}
	f.bytesIn.Add(float64(b.BytesIn))
	f.bytesOut.Add(float64(b.BytesOut))
	f.crossings.Add(float64(b.Crossings))
	c := f.combination(b.Dialect, b.Path, reason)
	c.calls.Inc()
	c.seconds.Observe(float64(b.WallNS) / 1e9)
	c.rows.Add(float64(b.Rows - b.RowsFailed))
	if b.RowsFailed > 0 {
		c.failed.Add(float64(b.RowsFailed))
	}
}

// Count adds what a body counted by a name. Who comes to more than CountersMax
// names within the life of the gateway shares one series from then on. It ignores
// an n below 1: a counter of Prometheus's panics when it is to go down.
func (f *Function) Count(name string, n int64) {
	if n < 1 {
		return
	}
	if c, ok := f.counted.Load(name); ok {
		c.(prometheus.Counter).Add(float64(n)) //nolint:errcheck // the map holds nothing else
		return
	}
	label := f.metrics.counters.of(f.name).label(name)
	c := f.metrics.counted.WithLabelValues(f.name, label)
	c.Add(float64(n))
	if label != counterOverflow { // names beyond the bound must not grow the map either
		f.counted.Store(name, c)
	}
}

// counterNames is the names of counters by function: a new generation of one
// goes on with those of the last.
type counterNames struct {
	mu      sync.Mutex
	byLabel map[string]*names
}

func (c *counterNames) of(function string) *names {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.byLabel[function]
	if !ok {
		if c.byLabel == nil {
			c.byLabel = map[string]*names{}
		}
		n = &names{max: CountersMax, rest: counterOverflow}
		c.byLabel[function] = n
	}
	return n
}

func (f *Function) combination(dialect, path string, reason udfgate.Reason) *combination {
	if c := f.last.Load(); c != nil && c.dialect == dialect && c.path == path && c.reason == reason {
		return c
	}
	outcome := outcomeOK
	if reason != "" {
		outcome = reasonLabel(reason)
	}
	m := f.metrics
	c := &combination{
		dialect: dialect, path: path, reason: reason,
		calls:   m.calls.WithLabelValues(f.name, dialect, path, outcome),
		seconds: m.callSeconds.WithLabelValues(f.name, dialect),
		rows:    m.rows.WithLabelValues(f.name, path, outcomeOK),
		failed:  m.rows.WithLabelValues(f.name, path, "failed"),
	}
	f.last.Store(c)
	return c
}

func addSeconds(c prometheus.Counter, ns int64) {
	if ns > 0 {
		c.Add(float64(ns) / 1e9)
	}
}

func reasonLabel(r udfgate.Reason) string { return strings.ToLower(string(r)) }
