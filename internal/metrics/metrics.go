// Package metrics names every metric of the gateway and holds its series. The
// rooms measure and hand over numbers; only this package knows Prometheus.
// It knows no room: pool and server are met through plain values.
package metrics

import (
	"cmp"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/udfgate/udfgate"
)

// LabelsMax bounds how many functions, and how many pools, get series of their
// own. What comes later shares the series named "other", so that a caller who
// can make names cannot make series.
const LabelsMax = 1000

// CountersMax bounds the names of what a function's bodies count that get series
// of their own; further ones share the series named "(other)", which is the name
// of no counter.
const CountersMax = 32

// The labels of what is beyond LabelsMax, and beyond CountersMax.
const (
	overflow        = "other"
	counterOverflow = "(other)"
)

// Metrics is the series of one gateway. Make one with New.
type Metrics struct {
	registry *prometheus.Registry

	wall, work   *prometheus.CounterVec // function, phase
	calls        *prometheus.CounterVec // function, dialect, path, outcome
	rows         *prometheus.CounterVec // function, path, outcome
	bytes        *prometheus.CounterVec // function, direction
	crossings    *prometheus.CounterVec // function
	rejected     *prometheus.CounterVec // reason
	retries      *prometheus.CounterVec // function
	counted      *prometheus.CounterVec // function, name
	workerStarts *prometheus.CounterVec // pool
	workerExits  *prometheus.CounterVec // pool, reason

	callSeconds  *prometheus.HistogramVec // function, dialect
	chunkRows    *prometheus.HistogramVec // function
	queueSeconds *prometheus.HistogramVec // pool
	startSeconds *prometheus.HistogramVec // pool

	functionInfo *prometheus.GaugeVec // function, version, path
	gauges       gauges

	functions sync.Map // *udfgate.Function → *Function
	shown     sync.Map // canonical name → label
	names     names    // labels of functions
	counters  counterNames
	pools     sync.Map // string → *poolSeries
	poolNames names
}

// names hands out at most LabelsMax distinct labels and overflow, or max and
// rest if these are set.
type names struct {
	max  int
	rest string
	mu   sync.Mutex
	seen map[string]bool
}

// label is name, or the one for the rest if there are too many already.
func (n *names) label(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen[name] {
		return name
	}
	if len(n.seen) >= cmp.Or(n.max, LabelsMax) {
		return cmp.Or(n.rest, overflow)
	}
	if n.seen == nil {
		n.seen = map[string]bool{}
	}
	n.seen[name] = true
	return name
}

// timeBuckets are the classic buckets of durations, from 10 µs: a crossing is
// shorter than most tools' first bucket.
var timeBuckets = []float64{
	10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3,
	10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
}

// rowBuckets are the classic buckets of batch sizes.
var rowBuckets = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576}

// New makes the metrics and registers them; nil is a registry of their own.
func New(reg *prometheus.Registry) *Metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &Metrics{registry: reg}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: buckets,
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  160,
			NativeHistogramMinResetDuration: time.Hour,
		}, labels)
		reg.MustRegister(h)
		return h
	}
	m.wall = counter("udfgate_wall_seconds_total", "Wall time of calls, each instant booked to one phase; the phases add up to the calls' wall time.", "function", "phase")
	m.work = counter("udfgate_work_seconds_total", "Time spent on pieces of calls, summed over pieces that ran side by side.", "function", "phase")
	m.calls = counter("udfgate_calls_total", "Calls ended.", "function", "dialect", "path", "outcome")
	m.rows = counter("udfgate_rows_total", "Rows answered.", "function", "path", "outcome")
	m.bytes = counter("udfgate_bytes_total", "Bytes of batches received and answers sent.", "function", "direction")
	m.crossings = counter("udfgate_crossings_total", "Trips of a chunk to a worker and back.", "function")
	m.rejected = counter("udfgate_rejected_total", "Calls refused: for what the caller sent, or for a limit.", "reason")
	m.retries = counter("udfgate_retries_total", "Chunks handed to a further worker because the first did not take them.", "function")
	m.counted = counter("udfgate_counter_total", "What bodies counted, for answers that were handed over.", "function", "name")
	m.workerStarts = counter("udfgate_worker_starts_total", "Workers that became ready.", "pool")
	m.workerExits = counter("udfgate_worker_exits_total", "Workers that ended.", "pool", "reason")
	m.callSeconds = histogram("udfgate_call_seconds", "Wall time of a call.", timeBuckets, "function", "dialect")
	m.chunkRows = histogram("udfgate_chunk_rows", "Rows of a batch handed to a backend.", rowBuckets, "function")
	m.queueSeconds = histogram("udfgate_queue_seconds", "Time a chunk waited for a worker.", timeBuckets, "pool")
	m.startSeconds = histogram("udfgate_worker_start_seconds", "Time from the launch of a worker until it had loaded its modules.", timeBuckets, "pool")
	m.functionInfo = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "udfgate_function_info", Help: "Functions served; the value is 1."},
		[]string{"function", "version", "path"})
	reg.MustRegister(m.functionInfo, &m.gauges)
	return m
}

// Handler serves the metrics in Prometheus' own formats.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Build sets udfgate_build_info.
func (m *Metrics) Build(version, commit, goVersion string) {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "udfgate_build_info", Help: "The binary that runs; the value is 1."},
		[]string{"version", "commit", "goversion"})
	m.registry.MustRegister(info)
	info.WithLabelValues(version, commit, goVersion).Set(1)
}

// Rejected counts a call that was refused for a reason.
func (m *Metrics) Rejected(reason udfgate.Reason) {
	m.rejected.WithLabelValues(reasonLabel(reason)).Inc()
}

// Inflight makes udfgate_inflight_bytes show what read returns.
func (m *Metrics) Inflight(read func() int64) { m.gauges.setInflight(read) }

// WorkerStarted notes that a worker of a pool became ready, took after its
// launch. With WorkerExited, QueueWait and Retried it is what a pool observes.
func (m *Metrics) WorkerStarted(pool string, took time.Duration) {
	p := m.pool(pool)
	p.starts.Inc()
	p.startSeconds.Observe(took.Seconds())
}

// WorkerExited notes that a worker ended, for a reason of the pool's closed set.
func (m *Metrics) WorkerExited(pool, reason string) {
	m.workerExits.WithLabelValues(m.pool(pool).name, reason).Inc()
}

// QueueWait notes how long a call waited for a worker.
func (m *Metrics) QueueWait(pool string, d time.Duration) {
	m.pool(pool).queueSeconds.Observe(d.Seconds())
}

// Retried notes that a chunk of a function went to a further worker. The
// function may be called by its canonical or by its short name.
func (m *Metrics) Retried(function string) {
	m.retries.WithLabelValues(m.shownAs(function)).Inc()
}

// poolSeries are the children of one pool: a look-up of labels per call would
// cost more than the observation.
type poolSeries struct {
	name                       string
	starts                     prometheus.Counter
	queueSeconds, startSeconds prometheus.Observer
}

func (m *Metrics) pool(name string) *poolSeries {
	if p, ok := m.pools.Load(name); ok {
		return p.(*poolSeries) //nolint:errcheck // the map holds nothing else
	}
	label := m.poolNames.label(name)
	p := &poolSeries{
		name:         label,
		starts:       m.workerStarts.WithLabelValues(label),
		queueSeconds: m.queueSeconds.WithLabelValues(label),
		startSeconds: m.startSeconds.WithLabelValues(label),
	}
	if label == overflow {
		return p // not kept: names beyond the bound must not grow the map either
	}
	kept, _ := m.pools.LoadOrStore(name, p)
	return kept.(*poolSeries) //nolint:errcheck // the map holds nothing else
}

// Function is the series of one function.
type Function struct {
	wall      [len(phases)]prometheus.Counter
	work      [len(workPhases)]prometheus.Counter
	bytesIn   prometheus.Counter
	bytesOut  prometheus.Counter
	crossings prometheus.Counter
	chunkRows prometheus.Observer
	metrics   *Metrics
	name      string
	counted   sync.Map // name of a counter → prometheus.Counter
	// last is the combination of labels seen last: nearly always the same.
	last atomic.Pointer[combination]
}
