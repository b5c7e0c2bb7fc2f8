package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// PoolState is what a pool is doing at one instant.
type PoolState struct {
	Idle, Busy, Starting int
	QueueDepth           int
	// BusySeconds and WorkerSeconds only grow: the time that workers spent on
	// chunks, and the time that they were there.
	BusySeconds, WorkerSeconds float64
	// MemoryBytes is the resident memory of the workers; PinnedBytes is the
	// slots that are kept for workers which were given up.
	MemoryBytes, PinnedBytes int64
}

var (
	inflightDesc    = prometheus.NewDesc("udfgate_inflight_bytes", "Bytes of batches and answers within the gateway.", nil, nil)
	pinnedDesc      = prometheus.NewDesc("udfgate_slot_pinned_bytes", "Bytes of slots kept for workers that were given up, until these are dead.", nil, nil)
	queueDepthDesc  = prometheus.NewDesc("udfgate_queue_depth", "Chunks that wait for a worker.", []string{"pool"}, nil)
	workersDesc     = prometheus.NewDesc("udfgate_workers", "Workers by state.", []string{"pool", "state"}, nil)
	memoryDesc      = prometheus.NewDesc("udfgate_pool_memory_bytes", "Resident memory of a pool's workers; a page that several share counts in each.", []string{"pool"}, nil)
	utilizationDesc = prometheus.NewDesc("udfgate_pool_utilization", "Share of its workers' time that a pool spent on chunks since the last scrape, 0 to 1.", []string{"pool"}, nil)
)

// gauges is the collector of what is read at scrape time.
type gauges struct {
	mu       sync.Mutex
	inflight func() int64
	pools    []*poolGauge
}

type poolGauge struct {
	name string
	read func() PoolState

	at            time.Time
	busy, worker  float64
	utilization   float64
	utilizationOK bool
}

// utilizationMin is the least time between two readings of utilization: two
// scrapers must not halve each other's window to nothing.
const utilizationMin = time.Second

func (g *gauges) setInflight(read func() int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inflight = read
}

// Pool makes the gauges of a pool show what read returns.
func (m *Metrics) Pool(name string, read func() PoolState) {
	label := m.poolNames.label(name)
	if label == overflow {
		return // one series cannot show two pools
	}
	m.gauges.mu.Lock()
	defer m.gauges.mu.Unlock()
	for _, p := range m.gauges.pools {
		if p.name == label {
			p.read = read
			return
		}
	}
	m.gauges.pools = append(m.gauges.pools, &poolGauge{name: label, read: read})
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(out chan<- *prometheus.Desc) {
	out <- inflightDesc
	out <- pinnedDesc
	out <- queueDepthDesc
	out <- workersDesc
	out <- memoryDesc
	out <- utilizationDesc
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if g.inflight != nil {
		gauge(inflightDesc, float64(g.inflight()))
	}
	now := time.Now()
	pinned := int64(0)
	for _, p := range g.pools {
		s := p.read()
		pinned += s.PinnedBytes
		gauge(queueDepthDesc, float64(s.QueueDepth), p.name)
		gauge(workersDesc, float64(s.Idle), p.name, "idle")
		gauge(workersDesc, float64(s.Busy), p.name, "busy")
		gauge(workersDesc, float64(s.Starting), p.name, "starting")
		gauge(memoryDesc, float64(s.MemoryBytes), p.name)
		gauge(utilizationDesc, p.use(now, s), p.name)
	}
	if len(g.pools) > 0 {
		gauge(pinnedDesc, float64(pinned))
	}
}

// use is the share of worker time that was busy since the last reading.
func (p *poolGauge) use(now time.Time, s PoolState) float64 {
	if p.utilizationOK && now.Sub(p.at) < utilizationMin {
		return p.utilization
	}
	p.utilization = 0
	if there := s.WorkerSeconds - p.worker; there > 0 {
		p.utilization = min(max((s.BusySeconds-p.busy)/there, 0), 1)
	}
	p.at, p.busy, p.worker, p.utilizationOK = now, s.BusySeconds, s.WorkerSeconds, true
	return p.utilization
}
