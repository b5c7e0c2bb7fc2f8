package metrics

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/udfgate/udfgate"
)

var gcd = &udfgate.Function{Name: "gcd", Module: "geo", Version: "0123456789ab"}

// fed returns metrics that have seen one of everything.
func fed() (*Metrics, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	m := New(reg)
	m.Build("1.0.0", "abcdef", "go1.26")
	m.Inflight(func() int64 { return 4096 })
	m.Pool("default", func() PoolState {
		return PoolState{Idle: 1, Busy: 2, Starting: 1, QueueDepth: 3, BusySeconds: 30, WorkerSeconds: 40, MemoryBytes: 64 << 20, PinnedBytes: 8192}
	})
	m.WorkerStarted("default", 30*time.Millisecond)
	m.WorkerExited("default", "signal")
	m.QueueWait("default", 20*time.Microsecond)
	m.Retried("gcd")
	m.Rejected(udfgate.QueueFull)
	f := m.Function(gcd, "gcd")
	f.ChunkRows(1024)
	b := udfgate.Bill{Function: "gcd", Dialect: "flight", Path: "python", Rows: 1000, RowsFailed: 24, BytesIn: 16384, BytesOut: 8192, Crossings: 1}
	var p udfgate.Partition
	for i := range p {
		p[i] = int64(i+1) * 1e6
	}
	b.SetPartition(&p)
	b.SetWork(udfgate.Work{BodyNS: 5e6, BodyCPUNS: 4e6, ConversionWorkerNS: 3e6, ConversionGatewayNS: 2e6, CrossingNS: 1e6})
	f.Observe(&b, "")
	f.Observe(&b, udfgate.UserError)
	f.Count("rejected", 3)
	return m, reg
}

// TestGolden pins names, help, types, labels and values; UDFGATE_REWRITE=1
// writes the file anew.
func TestGolden(t *testing.T) {
	_, reg := fed()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		fmt.Fprintf(&b, "%s %s: %s\n", strings.ToLower(f.GetType().String()), f.GetName(), f.GetHelp())
		for _, s := range f.GetMetric() {
			var labels []string
			for _, l := range s.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := s.GetCounter().GetValue() + s.GetGauge().GetValue()
			if h := s.GetHistogram(); h != nil {
				value = h.GetSampleSum()
			}
			fmt.Fprintf(&b, "    {%s} %.6g\n", strings.Join(labels, ","), value)
		}
	}
	path := filepath.Join("testdata", "metrics.txt")
	if os.Getenv("UDFGATE_REWRITE") != "" {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (UDFGATE_REWRITE=1 accepts it):\n%s", path, diff)
	}
}

func TestNamesPassTheLinter(t *testing.T) {
	_, reg := fed()
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if p.Metric == "udfgate_counter_total" {
			continue // what bodies count they ask of counter(): it is the thing's name, not the metric's type
		}
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// Scrapers that speak text see classic buckets from 10 µs; the others native ones.
func TestHistogramsAreClassicAndNative(t *testing.T) {
	m, reg := fed()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range families {
		for _, s := range f.GetMetric() {
			if h := s.GetHistogram(); h != nil {
				seen++
				if len(h.GetBucket()) < 10 || len(h.GetPositiveSpan()) == 0 {
					t.Errorf("%s: %d classic buckets, %d native spans", f.GetName(), len(h.GetBucket()), len(h.GetPositiveSpan()))
				}
			}
		}
	}
	if seen != 4 {
		t.Errorf("%d histograms, wanted 4", seen)
	}
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	r, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil || !strings.Contains(string(text), `udfgate_queue_seconds_bucket{pool="default",le="1e-05"} 0`) {
		t.Errorf("no bucket of 10 µs: %v %s", err, text)
	}
}

func TestLabelsAreBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := New(reg)
	for i := range LabelsMax + 50 {
		name := fmt.Sprint("f", i)
		m.Function(&udfgate.Function{Name: name, Version: "v"}, name).ChunkRows(1)
		m.QueueWait(fmt.Sprint("p", i), time.Second)
		m.Pool(fmt.Sprint("p", i), func() PoolState { return PoolState{} })
	}
	for _, name := range []string{"udfgate_chunk_rows", "udfgate_queue_seconds"} {
		n, err := testutil.GatherAndCount(reg, name)
		if err != nil || n != LabelsMax+1 {
			t.Errorf("%s: %d series, %v; wanted %d and one for the rest", name, n, err, LabelsMax)
		}
	}
}

func TestFunctionIsMadeOnce(t *testing.T) {
	m := New(nil)
	f := m.Function(gcd, "gcd")
	if m.Function(gcd, "gcd") != f {
		t.Error("the series of a function were made twice")
	}
	b := &udfgate.Bill{Dialect: "flight", Path: "python", WallNS: 5, BodyNS: 5}
	f.Observe(b, "")
	if n := testing.AllocsPerRun(100, func() { f.Observe(b, "") }); n > 0 {
		t.Errorf("%v allocations per observation, wanted none", n)
	}
}

// A retry is counted under the name that the function has everywhere else,
// whichever name the pool knows it by.
func TestRetriesGoByTheShownName(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := New(reg)
	m.Function(gcd, "gcd")
	for _, module := range []string{"a", "b"} {
		m.Function(&udfgate.Function{Name: "f", Module: module}, module+".f")
	}
	for _, name := range []string{"gcd", "geo.gcd", "a.f", "b.f", "b.f"} {
		m.Retried(name)
	}
	want := `
		# HELP udfgate_retries_total Chunks handed to a further worker because the first did not take them.
		# TYPE udfgate_retries_total counter
		udfgate_retries_total{function="a.f"} 1
		udfgate_retries_total{function="b.f"} 2
		udfgate_retries_total{function="gcd"} 2
	`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "udfgate_retries_total"); err != nil {
		t.Error(err)
	}
}

func TestUtilizationIsThatSinceTheLastScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &poolGauge{}
		got := []float64{
			g.use(time.Now(), PoolState{BusySeconds: 10, WorkerSeconds: 40}),
			g.use(time.Now(), PoolState{BusySeconds: 11, WorkerSeconds: 41}), // too soon: the last one again
		}
		time.Sleep(10 * time.Second)
		got = append(got, g.use(time.Now(), PoolState{BusySeconds: 25, WorkerSeconds: 60}))
		time.Sleep(10 * time.Second)
		got = append(got, g.use(time.Now(), PoolState{BusySeconds: 25, WorkerSeconds: 60}))
		if !slices.Equal(got, []float64{0.25, 0.25, 0.75, 0}) {
			t.Errorf("got %v", got)
		}
	})
}

func BenchmarkObserve(b *testing.B) {
	f := New(nil).Function(gcd, "gcd")
	bill := &udfgate.Bill{Dialect: "flight", Path: "python", Rows: 1, BytesIn: 600, BytesOut: 400, Crossings: 1}
	bill.SetPartition(&udfgate.Partition{800, 4000, 0, 900, 0, 7000, 21000, 1800, 3000, 1500})
	bill.SetWork(udfgate.Work{BodyNS: 1500, BodyCPUNS: 1400, ConversionWorkerNS: 3000, ConversionGatewayNS: 1800, CrossingNS: 28000})
	b.ReportAllocs()
	for b.Loop() {
		f.Observe(bill, "")
	}
}

// However many names a function's bodies make up, in however many generations,
// 32 have series of their own.
func TestCounterNamesAreBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := New(reg)
	for generation := range 2 {
		f := m.Function(&udfgate.Function{Name: "gcd", Module: "geo", Generation: uint32(generation)}, "gcd")
		for i := range CountersMax {
			f.Count(fmt.Sprint("n", i+generation), 2)
		}
		f.Count("n31", 1)
	}
	m.Function(&udfgate.Function{Name: "lcm", Module: "geo"}, "lcm").Count("n40", 1)
	if n, err := testutil.GatherAndCount(reg, "udfgate_counter_total"); err != nil || n != CountersMax+2 {
		t.Errorf("%d series, %v; wanted %d, one for the rest, and one of another function", n, err, CountersMax)
	}
	got := func(name string) float64 { return testutil.ToFloat64(m.counted.WithLabelValues("gcd", name)) }
	if got("n0") != 2 || got("n1") != 4 || got("n31") != 6 || got("(other)") != 2 {
		t.Errorf("n0 %v, n1 %v, n31 %v, (other) %v", got("n0"), got("n1"), got("n31"), got("(other)"))
	}
	// A counter may be called other, and shares nothing with the rest.
	f := m.Function(&udfgate.Function{Name: "lcm", Module: "geo", Generation: 7}, "lcm")
	for i := range CountersMax {
		f.Count(fmt.Sprint("m", i), 1)
	}
	f.Count("other", 100)
	f.Count("m1", 0)
	f.Count("m1", -5) // a counter does not go down, nor does the gateway
	if rest := testutil.ToFloat64(m.counted.WithLabelValues("lcm", "(other)")); rest != 101 {
		t.Errorf("lcm: the rest is %v, wanted m31 and other", rest)
	}
	if n := testutil.ToFloat64(m.counted.WithLabelValues("lcm", "m1")); n != 1 {
		t.Errorf("lcm: m1 %v", n)
	}
	f = m.Function(&udfgate.Function{Name: "mod", Module: "geo"}, "mod")
	f.Count("other", 3)
	for i := range CountersMax {
		f.Count(fmt.Sprint("m", i), 1)
	}
	if n := testutil.ToFloat64(m.counted.WithLabelValues("mod", "other")); n != 3 {
		t.Errorf("mod: its counter other has %v of its own", n)
	}
	f = m.Function(gcd, "gcd")
	f.Count("n1", 1)
	if n := testing.AllocsPerRun(100, func() { f.Count("n1", 1) }); n > 1 { // the key of the look-up
		t.Errorf("%v allocations per count, wanted 1 at most", n)
	}
}
