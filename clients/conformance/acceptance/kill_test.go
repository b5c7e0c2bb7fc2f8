package acceptance

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/udfgate/udfgate"
	client "github.com/udfgate/udfgate/clients/go"
	"github.com/udfgate/udfgate/internal/seed"
)

const (
	kills       = 1000
	killCallers = 4
	// killCallMax is far above any honest answer: reaching it is a hang.
	killCallMax = 30 * time.Second
)

// TestKilledWorkers kills workers at random instants under load, a thousand
// times: no call hangs, every answer is right or the call says WORKER_LOST
// (or, while none lives, that none could be had), and the gateway recovers.
func TestKilledWorkers(t *testing.T) {
	g := start(t, "--workers", "2")
	rng := seed.Rand(t)
	rounds := kills
	if testing.Short() {
		rounds /= 20
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var right, lost atomic.Int64
	for range killCallers {
		own := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := killCall(t, g.client, own, &right, &lost); err != nil && ctx.Err() == nil {
					t.Error(err)
					cancel()
				}
			}
		})
	}
	done := 0
	wild, answered := false, int64(0)
	for done < rounds && ctx.Err() == nil {
		pids := g.workers(t)
		// One kill in eight hits whatever is there, starting workers too; before
		// the others a call gets through, or none ever would.
		if len(pids) == 0 || !wild && right.Load() == answered {
			time.Sleep(time.Millisecond) // process table and counter are all there is to look at
			continue
		}
		time.Sleep(time.Duration(rng.IntN(5_000)) * time.Microsecond) // the random instant of the kill
		wild, answered = rng.IntN(8) == 0, right.Load()
		if syscall.Kill(pids[rng.IntN(len(pids))], syscall.SIGKILL) == nil {
			done++
		}
	}
	cancel()
	wg.Wait()
	t.Logf("%d kills, %d calls right, %d WORKER_LOST", done, right.Load(), lost.Load())
	if right.Load() == 0 || lost.Load() == 0 {
		t.Error("wanted both right answers and lost workers")
	}
	batch, want := randomBatch(rng, 10)
	defer batch.Release()
	got, err := g.client.Call(t.Context(), "weigh", batch)
	if err != nil {
		t.Fatal("after the kills:", err)
	}
	defer got.Batch.Release()
	if err := checkTexts(got.Batch, want); err != nil {
		t.Error("after the kills:", err)
	}
}

func killCall(t *testing.T, c *client.Client, rng *rand.Rand, right, lost *atomic.Int64) error {
	ctx, cancel := context.WithTimeout(t.Context(), killCallMax)
	defer cancel()
	batch, want := randomBatch(rng, 1+rng.IntN(5000))
	defer batch.Release()
	got, err := c.Call(ctx, "weigh", batch)
	if err != nil {
		var remote *client.Error
		if errors.As(err, &remote) && remote.Reason == udfgate.WorkerLost {
			lost.Add(1)
			return nil
		}
		return err
	}
	defer got.Batch.Release()
	right.Add(1)
	return checkTexts(got.Batch, want)
}
