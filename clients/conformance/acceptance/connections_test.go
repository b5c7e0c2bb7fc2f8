package acceptance

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/udfgate/udfgate/clients/go"
	"github.com/udfgate/udfgate/internal/seed"
)

// crowd is how many connections stand idle, and how many come and go beside
// them. UDFGATE_CROWD=full takes the full size.
type crowd struct{ idle, perSecond, seconds int }

func crowdSize() crowd {
	if os.Getenv("UDFGATE_CROWD") == "full" {
		return crowd{idle: 1000, perSecond: 256, seconds: 20}
	}
	return crowd{idle: 200, perSecond: 64, seconds: 3}
}

const (
	// idleBytesMax is what a connection may hold that has made a call and is
	// silent. Its HTTP/2 window of 1 MiB is none of it: nothing was sent.
	idleBytesMax = 192 << 10
	// comingBytesMax is what the ones that come and go may hold together: far
	// less than a leak of one of them would come to at full size.
	comingBytesMax = 96 << 20
	crowdCallMax   = 30 * time.Second
)

// TestCrowd lets connections stand idle, half of them with an open call, while
// others come, call once and go: no call fails, every answer is right, memory
// stays within bounds, and those that stood idle are served afterwards.
func TestCrowd(t *testing.T) {
	size := crowdSize()
	g := start(t, "--workers", "2")
	rng := seed.Rand(t)
	before := g.memory(t, "VmRSS")
	idle := g.idlers(t, rng, size.idle)
	with := g.memory(t, "VmRSS")
	failed, took := g.comers(t, rng, size)
	if failed > 0 {
		t.Errorf("%d of %d calls failed", failed, size.perSecond*size.seconds)
	}
	peak := g.memory(t, "VmHWM")
	for i, one := range idle {
		if err := one.call(t.Context(), rng); err != nil {
			t.Fatalf("idle connection %d: %v", i, err)
		}
	}
	slices.Sort(took)
	t.Logf("%d idle, %d calls by connections of their own: p50 %v, p99 %v, max %v; resident %d MiB before, %d MiB with the idle ones, peak %d MiB, %d MiB after",
		size.idle, len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1], before>>20, with>>20, peak>>20, g.memory(t, "VmRSS")>>20)
	if most := before + int64(size.idle)*idleBytesMax + comingBytesMax; peak > most {
		t.Errorf("peak of %d bytes, wanted at most %d: %d before, %d for each idle connection, %d for the others",
			peak, most, before, idleBytesMax, comingBytesMax)
	}
}

// memory is a field of the gateway's /proc/PID/status, in bytes.
func (g *gateway) memory(t *testing.T, field string) int64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", g.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		if value, ok := strings.CutPrefix(s.Text(), field+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no %s in the gateway's status", field)
	return 0
}

// idler is a connection that has called once, and perhaps an open call on it.
type idler struct {
	client *client.Client
	stream *client.Stream
}

func (g *gateway) idlers(t *testing.T, rng *rand.Rand, n int) []idler {
	t.Helper()
	all := make([]idler, 0, n)
	for i := range n {
		c, err := client.Connect(t.Context(), g.client.Addr())
		if err != nil {
			t.Fatalf("idle connection %d: %v", i, err)
		}
		t.Cleanup(func() { _ = c.Close() })
		one := idler{client: c}
		if i%2 == 1 {
			if one.stream, err = c.Stream(t.Context(), "weigh", weighSchema); err != nil {
				t.Fatalf("idle connection %d: %v", i, err)
			}
			t.Cleanup(one.stream.Close)
		}
		if err := one.call(t.Context(), rng); err != nil {
			t.Fatalf("idle connection %d: %v", i, err)
		}
		all = append(all, one)
	}
	return all
}

// call sends one row, on the open call if there is one.
func (i idler) call(ctx context.Context, rng *rand.Rand) error {
	if i.stream == nil {
		return oneRow(ctx, i.client, rng)
	}
	batch, want := randomBatch(rng, 1)
	defer batch.Release()
	if err := i.stream.Send(batch); err != nil {
		return err
	}
	got, err := i.stream.Recv()
	if err != nil {
		return err
	}
	defer got.Batch.Release()
	return checkTexts(got.Batch, want)
}

func oneRow(ctx context.Context, c *client.Client, rng *rand.Rand) error {
	batch, want := randomBatch(rng, 1)
	defer batch.Release()
	got, err := c.Call(ctx, "weigh", batch)
	if err != nil {
		return err
	}
	defer got.Batch.Release()
	return checkTexts(got.Batch, want)
}

// comers opens so many connections a second, whether the earlier ones are done
// or not; each calls once and is closed. It returns how many failed, and how
// long each took from its connecting to its answer.
func (g *gateway) comers(t *testing.T, rng *rand.Rand, size crowd) (failed int, took []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	rate := time.NewTicker(time.Second / time.Duration(size.perSecond))
	defer rate.Stop()
	for range size.perSecond * size.seconds {
		<-rate.C
		own := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		wg.Go(func() {
			from := time.Now()
			err := g.comeAndGo(t.Context(), own)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(from))
			if err == nil {
				return
			}
			if failed++; failed <= 3 {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return failed, took
}

func (g *gateway) comeAndGo(ctx context.Context, rng *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, crowdCallMax)
	defer cancel()
	c, err := client.Connect(ctx, g.client.Addr())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return oneRow(ctx, c, rng)
}
