package pool

import (
	"cmp"
	"time"

	"github.com/udfgate/udfgate"
)

// Override is options of a function as the gateway's owner wants them. What is
// zero stays as the function's author wrote it.
type Override struct {
	Timeout     time.Duration
	TimeoutName string // what errors call it; empty: as if the author had set it
	OnError     udfgate.OnError
	Concurrency int // chunks at once
}

// override puts c.Overrides over what a worker has loaded. Every worker's
// functions go through it, so that they compare equal.
func (c *Config) override(set *loadedSet) {
	short := map[string]int{}
	for _, f := range set.functions {
		short[f.Name]++
	}
	for i, f := range set.functions {
		o, ok := c.Overrides[f.Canonical()]
		if !ok && short[f.Name] == 1 {
			o = c.Overrides[f.Name]
		}
		if o.Timeout != 0 {
			set.timeouts[i] = limit{length: o.Timeout, name: cmp.Or(o.TimeoutName, set.timeouts[i].name)}
		}
		if o.OnError != "" {
			f.OnError = o.OnError
		}
		if o.Concurrency != 0 {
			f.Concurrency = o.Concurrency
		}
	}
}

// FunctionTimeout is the time limit of a chunk of f from when it has its
// worker: the pool's, or the function's own if that is shorter.
func (p *Pool) FunctionTimeout(f *udfgate.Function) time.Duration {
	if own := p.ownTimeout(f).length; own != 0 {
		return min(own, p.config.Timeout)
	}
	return p.config.Timeout
}

// FunctionFile is the file that f's module was loaded from; empty if it has
// none.
func (p *Pool) FunctionFile(f *udfgate.Function) string {
	if int(f.Number) >= len(p.first.files) {
		return ""
	}
	return p.first.files[f.Number]
}
