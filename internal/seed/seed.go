// Package seed gives tests their randomness: a new seed each run, printed, and
// replayed by UDFGATE_SEED. It knows no room. The root package's tests, which
// may import nothing of ours, keep a copy.
package seed

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Rand is a random source for a test; UDFGATE_SEED replays a run.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("UDFGATE_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("UDFGATE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
