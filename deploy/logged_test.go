package deploy

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// logged is what a process prints; a test can wait for a text in it.
type logged struct {
	mu    sync.Mutex
	text  strings.Builder
	grown chan struct{}
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.grown <- struct{}{}:
	default: // the reader has not taken the last one yet, and will see this too
	}
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) wait(t *testing.T, want string) {
	t.Helper()
	for end := time.After(30 * time.Second); !strings.Contains(l.String(), want); {
		select {
		case <-l.grown:
		case <-end:
			t.Fatalf("wanted %q in the log, got\n%s", want, l)
		}
	}
}
